-- The health of hosts' storage: what agents said, who may speak for a host, episodes, and what their cascades did, object by object.
-- Only new tables: an older salvor beside this one does not miss them.

CREATE TABLE IF NOT EXISTS host_health (
    host_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    state VARCHAR(36) NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    reported_at DATETIME NULL,
    agent_url VARCHAR(1024) NOT NULL,
    total_bytes INTEGER NOT NULL,
    free_bytes INTEGER NOT NULL,
    held_by VARCHAR(255) NOT NULL,
    held_why TEXT NOT NULL,
    held_since DATETIME NULL
);

--bun:split

CREATE TABLE IF NOT EXISTS host_checks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host_uuid VARCHAR(36) NOT NULL,
    resource VARCHAR(255) NOT NULL,
    path TEXT NOT NULL,
    kinds VARCHAR(255) NOT NULL,
    status VARCHAR(36) NOT NULL,
    detail TEXT NOT NULL,
    filesystem_id VARCHAR(255) NOT NULL,
    checked_at DATETIME NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_host_checks0host_uuid0resource ON host_checks (host_uuid, resource);

--bun:split

CREATE INDEX IF NOT EXISTS host_checks_filesystem_idx ON host_checks (filesystem_id);

--bun:split

CREATE TABLE IF NOT EXISTS agents (
    host_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    key_hash VARCHAR(64) NOT NULL,
    key_by VARCHAR(255) NOT NULL,
    key_at DATETIME NULL,
    user_id VARCHAR(255) NOT NULL,
    user_by VARCHAR(255) NOT NULL,
    ticket_key VARCHAR(64) NOT NULL
);

--bun:split

CREATE TABLE IF NOT EXISTS storage_actions (
    segment_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    failure_action VARCHAR(36) NOT NULL
);

--bun:split

CREATE TABLE IF NOT EXISTS episodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    segment_uuid VARCHAR(36) NOT NULL,
    radius VARCHAR(255) NOT NULL,
    version INTEGER NOT NULL,
    opened_at DATETIME NOT NULL,
    opened_by VARCHAR(255) NOT NULL,
    why TEXT NOT NULL,
    held_by VARCHAR(255) NOT NULL,
    held_why TEXT NOT NULL,
    held_since DATETIME NULL,
    waived_by VARCHAR(255) NOT NULL,
    cleared_at DATETIME NULL,
    cleared_by VARCHAR(255) NOT NULL,
    clear_reason TEXT NOT NULL,
    reset_instances BOOLEAN NOT NULL,
    cleared INTEGER NOT NULL,
    braked TEXT NOT NULL,
    waiting TEXT NOT NULL,
    service VARCHAR(36) NOT NULL,
    ended_at DATETIME NULL,
    ended INTEGER NOT NULL,
    touch INTEGER NOT NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_episodes0uuid ON episodes (uuid);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_episodes0host_uuid0cleared ON episodes (host_uuid, cleared);

--bun:split

CREATE INDEX IF NOT EXISTS episodes_open_idx ON episodes (cleared, opened_at);

--bun:split

CREATE INDEX IF NOT EXISTS episodes_ended_idx ON episodes (host_uuid, ended);

--bun:split

CREATE TABLE IF NOT EXISTS episode_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    episode_uuid VARCHAR(36) NOT NULL,
    version INTEGER NOT NULL,
    kind VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    run_cursor VARCHAR(36) NOT NULL,
    done INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    why TEXT NOT NULL,
    updated_at DATETIME NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_episode_runs0run ON episode_runs (episode_uuid, version, kind);

--bun:split

CREATE TABLE IF NOT EXISTS episode_items (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    episode_uuid VARCHAR(36) NOT NULL,
    version INTEGER NOT NULL,
    kind VARCHAR(36) NOT NULL,
    object_id VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    note TEXT NOT NULL,
    changed_at DATETIME NOT NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_episode_items0item ON episode_items (episode_uuid, version, kind, object_id);
