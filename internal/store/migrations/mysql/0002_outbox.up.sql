-- What waits to be told, a row per message and destination, deleted when the destination has confirmed it; and who ships for each.
-- Only new tables: an older salvor beside this one does not miss them.

CREATE TABLE IF NOT EXISTS outbox (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sink VARCHAR(64) NOT NULL,
    message_id VARCHAR(36) NOT NULL,
    event_type VARCHAR(64) NOT NULL,
    body MEDIUMTEXT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    INDEX outbox_sink_idx (sink, id),
    INDEX outbox_age_idx (created_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS outbox_shippers (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sink VARCHAR(64) NOT NULL,
    owner VARCHAR(255) NOT NULL,
    epoch BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    ttl_ms BIGINT NOT NULL,
    CONSTRAINT uniq_outbox_shippers0sink UNIQUE (sink)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
