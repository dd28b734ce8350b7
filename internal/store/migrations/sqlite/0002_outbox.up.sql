-- What waits to be told, a row per message and destination, deleted when the destination has confirmed it; and who ships for each.
-- Only new tables: an older salvor beside this one does not miss them.

CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sink VARCHAR(64) NOT NULL,
    message_id VARCHAR(36) NOT NULL,
    event_type VARCHAR(64) NOT NULL,
    body TEXT NOT NULL,
    created_at DATETIME NOT NULL
);

--bun:split

CREATE INDEX IF NOT EXISTS outbox_sink_idx ON outbox (sink, id);

--bun:split

CREATE INDEX IF NOT EXISTS outbox_age_idx ON outbox (created_at);

--bun:split

CREATE TABLE IF NOT EXISTS outbox_shippers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sink VARCHAR(64) NOT NULL,
    owner VARCHAR(255) NOT NULL,
    epoch INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_outbox_shippers0sink ON outbox_shippers (sink);
