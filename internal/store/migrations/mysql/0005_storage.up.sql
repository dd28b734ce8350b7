-- The health of hosts' storage: what agents said, who may speak for a host, episodes, and what their cascades did, object by object.
-- Only new tables: an older salvor beside this one does not miss them.

CREATE TABLE IF NOT EXISTS host_health (
    host_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    state VARCHAR(36) NOT NULL,
    epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    reported_at DATETIME(6) NULL,
    agent_url VARCHAR(1024) NOT NULL,
    total_bytes BIGINT NOT NULL,
    free_bytes BIGINT NOT NULL,
    held_by VARCHAR(255) NOT NULL,
    held_why TEXT NOT NULL,
    held_since DATETIME(6) NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS host_checks (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    host_uuid VARCHAR(36) NOT NULL,
    resource VARCHAR(255) NOT NULL,
    path TEXT NOT NULL,
    kinds VARCHAR(255) NOT NULL,
    status VARCHAR(36) NOT NULL,
    detail TEXT NOT NULL,
    filesystem_id VARCHAR(255) NOT NULL,
    checked_at DATETIME(6) NULL,
    CONSTRAINT uniq_host_checks0host_uuid0resource UNIQUE (host_uuid, resource),
    INDEX host_checks_filesystem_idx (filesystem_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS agents (
    host_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    key_hash VARCHAR(64) NOT NULL,
    key_by VARCHAR(255) NOT NULL,
    key_at DATETIME(6) NULL,
    user_id VARCHAR(255) NOT NULL,
    user_by VARCHAR(255) NOT NULL,
    ticket_key VARCHAR(64) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS storage_actions (
    segment_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    failure_action VARCHAR(36) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS episodes (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    segment_uuid VARCHAR(36) NOT NULL,
    radius VARCHAR(255) NOT NULL,
    version INT NOT NULL,
    opened_at DATETIME(6) NOT NULL,
    opened_by VARCHAR(255) NOT NULL,
    why TEXT NOT NULL,
    held_by VARCHAR(255) NOT NULL,
    held_why TEXT NOT NULL,
    held_since DATETIME(6) NULL,
    waived_by VARCHAR(255) NOT NULL,
    cleared_at DATETIME(6) NULL,
    cleared_by VARCHAR(255) NOT NULL,
    clear_reason TEXT NOT NULL,
    reset_instances TINYINT(1) NOT NULL,
    cleared BIGINT NOT NULL,
    braked TEXT NOT NULL,
    waiting TEXT NOT NULL,
    service VARCHAR(36) NOT NULL,
    ended_at DATETIME(6) NULL,
    ended BIGINT NOT NULL,
    touch BIGINT NOT NULL,
    CONSTRAINT uniq_episodes0uuid UNIQUE (uuid),
    CONSTRAINT uniq_episodes0host_uuid0cleared UNIQUE (host_uuid, cleared),
    INDEX episodes_open_idx (cleared, opened_at),
    INDEX episodes_ended_idx (host_uuid, ended)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS episode_runs (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    episode_uuid VARCHAR(36) NOT NULL,
    version INT NOT NULL,
    kind VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    run_cursor VARCHAR(36) NOT NULL,
    done INT NOT NULL,
    skipped INT NOT NULL,
    failed INT NOT NULL,
    why TEXT NOT NULL,
    updated_at DATETIME(6) NULL,
    CONSTRAINT uniq_episode_runs0run UNIQUE (episode_uuid, version, kind)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS episode_items (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    episode_uuid VARCHAR(36) NOT NULL,
    version INT NOT NULL,
    kind VARCHAR(36) NOT NULL,
    object_id VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    note TEXT NOT NULL,
    changed_at DATETIME(6) NOT NULL,
    CONSTRAINT uniq_episode_items0item UNIQUE (episode_uuid, version, kind, object_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
