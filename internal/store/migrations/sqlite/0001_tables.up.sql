-- Masakari's four tables with its columns, names and meaning (contract section 7), ours beside them; then our own tables.
-- Masakari's created_at, updated_at and deleted_at are whole seconds; other times have microseconds; all are UTC.
-- deleted and ended are 0 while a row is live, its own id afterwards.

CREATE TABLE IF NOT EXISTS failover_segments (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    name VARCHAR(255) NOT NULL,
    service_type VARCHAR(255) NOT NULL,
    description TEXT NULL,
    recovery_method VARCHAR(36) NOT NULL,
    enabled BOOLEAN NULL,
    -- ours
    name_key VARCHAR(255) NOT NULL,
    trust_reports BOOLEAN NULL,
    touch INTEGER NOT NULL DEFAULT 0
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_segment0name0deleted ON failover_segments (name, deleted);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_segment0name_key0deleted ON failover_segments (name_key, deleted);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_segments0uuid ON failover_segments (uuid);

--bun:split

CREATE INDEX IF NOT EXISTS segments_service_type_idx ON failover_segments (service_type);

--bun:split

CREATE INDEX IF NOT EXISTS segments_list_idx ON failover_segments (deleted, created_at, id);

--bun:split

CREATE TABLE IF NOT EXISTS hosts (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    name VARCHAR(255) NOT NULL,
    reserved BOOLEAN NOT NULL,
    type VARCHAR(255) NOT NULL,
    control_attributes TEXT NOT NULL,
    failover_segment_id VARCHAR(36) NOT NULL,
    on_maintenance BOOLEAN NOT NULL,
    -- ours
    name_key VARCHAR(255) NOT NULL,
    reserved_for INTEGER NOT NULL DEFAULT 0,
    last_started_at DATETIME NULL,
    touch INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT hosts_failover_segment_fk FOREIGN KEY (failover_segment_id) REFERENCES failover_segments (uuid)
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_host0name0deleted ON hosts (name, deleted);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_host0name_key0deleted ON hosts (name_key, deleted);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_host0uuid ON hosts (uuid);

--bun:split

CREATE INDEX IF NOT EXISTS hosts_type_idx ON hosts (type);

--bun:split

CREATE INDEX IF NOT EXISTS hosts_list_idx ON hosts (failover_segment_id, deleted, created_at, id);

--bun:split

CREATE INDEX IF NOT EXISTS hosts_reserved_for_idx ON hosts (reserved_for);

--bun:split

CREATE TABLE IF NOT EXISTS notifications (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    notification_uuid VARCHAR(36) NOT NULL,
    generated_time DATETIME NOT NULL,
    source_host_uuid VARCHAR(36) NOT NULL,
    type VARCHAR(36) NOT NULL,
    payload TEXT NULL,
    status VARCHAR(36) NOT NULL,
    failover_segment_uuid VARCHAR(36) NULL,
    message TEXT NULL,
    -- ours
    unit_key VARCHAR(100) NOT NULL,
    event VARCHAR(36) NOT NULL DEFAULT ''
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_notification0uuid ON notifications (notification_uuid);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_list_idx ON notifications (deleted, created_at, id);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_status_idx ON notifications (deleted, status, created_at, id);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_type_idx ON notifications (deleted, type, created_at, id);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_generated_idx ON notifications (deleted, generated_time);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_host_idx ON notifications (source_host_uuid, deleted, created_at, id);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_unit_idx ON notifications (unit_key, status, id);

--bun:split

CREATE INDEX IF NOT EXISTS notifications_twin_idx ON notifications (unit_key, generated_time);

--bun:split

CREATE TABLE IF NOT EXISTS vmoves (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    notification_uuid VARCHAR(36) NOT NULL,
    instance_uuid VARCHAR(36) NOT NULL,
    instance_name VARCHAR(255) NOT NULL,
    source_host VARCHAR(255) NULL,
    dest_host VARCHAR(255) NULL,
    start_time DATETIME NULL,
    end_time DATETIME NULL,
    type VARCHAR(36) NULL,
    status VARCHAR(255) NULL,
    message TEXT NULL,
    -- ours
    stage VARCHAR(36) NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 0,
    pass INTEGER NOT NULL DEFAULT 0,
    ha BOOLEAN NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 0,
    born DATETIME NULL,
    prior_vm VARCHAR(36) NOT NULL DEFAULT '',
    prior_on BOOLEAN NOT NULL DEFAULT 0,
    want VARCHAR(36) NOT NULL DEFAULT '',
    was_locked BOOLEAN NOT NULL DEFAULT 0,
    locked BOOLEAN NOT NULL DEFAULT 0,
    order_at DATETIME NULL,
    order_base INTEGER NOT NULL DEFAULT 0,
    order_record INTEGER NOT NULL DEFAULT 0,
    order_target VARCHAR(255) NOT NULL DEFAULT '',
    order_answered BOOLEAN NOT NULL DEFAULT 0,
    lost_act VARCHAR(36) NOT NULL DEFAULT '',
    lost_at DATETIME NULL,
    refused_by VARCHAR(255) NOT NULL DEFAULT '',
    final BOOLEAN NOT NULL DEFAULT 0,
    not_before DATETIME NULL,
    waits INTEGER NOT NULL DEFAULT 0,
    outcome VARCHAR(36) NOT NULL DEFAULT '',
    retry_wish INTEGER NOT NULL DEFAULT 0,
    retry_done INTEGER NOT NULL DEFAULT 0
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_vmove0uuid ON vmoves (uuid);

--bun:split

CREATE INDEX IF NOT EXISTS vmoves_list_idx ON vmoves (notification_uuid, deleted, created_at, id);

--bun:split

CREATE TABLE IF NOT EXISTS work (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind VARCHAR(36) NOT NULL,
    unit_key VARCHAR(100) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    segment_uuid VARCHAR(36) NOT NULL,
    notification_uuid VARCHAR(36) NOT NULL,
    owner VARCHAR(255) NOT NULL,
    epoch INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    ended_at DATETIME NULL,
    ended INTEGER NOT NULL DEFAULT 0,
    next_look_at DATETIME NOT NULL,
    signals INTEGER NOT NULL,
    seen_signals INTEGER NOT NULL,
    cancel_by VARCHAR(255) NOT NULL,
    hold_by VARCHAR(255) NOT NULL,
    hold_reason TEXT NULL,
    hold_until DATETIME NULL,
    release_by VARCHAR(255) NOT NULL,
    releases INTEGER NOT NULL,
    retry_by VARCHAR(255) NOT NULL,
    retries INTEGER NOT NULL,
    step VARCHAR(36) NOT NULL,
    attempt INTEGER NOT NULL,
    started_at DATETIME NULL,
    proof VARCHAR(36) NOT NULL,
    proof_at DATETIME NULL,
    proof_text TEXT NULL,
    prepared BOOLEAN NOT NULL,
    held_at VARCHAR(36) NOT NULL,
    held_why TEXT NULL,
    held_since DATETIME NULL,
    listed BOOLEAN NOT NULL,
    failures INTEGER NOT NULL,
    wake_at DATETIME NULL,
    released INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    waived VARCHAR(255) NOT NULL,
    returned BOOLEAN NOT NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_work0unit_key0ended ON work (unit_key, ended);

--bun:split

CREATE INDEX IF NOT EXISTS work_look_idx ON work (ended, next_look_at);

--bun:split

CREATE INDEX IF NOT EXISTS work_notification_idx ON work (notification_uuid);

--bun:split

CREATE INDEX IF NOT EXISTS work_host_idx ON work (host_uuid, ended);

--bun:split

CREATE INDEX IF NOT EXISTS work_rate_idx ON work (segment_uuid, kind, started_at);

--bun:split

CREATE TABLE IF NOT EXISTS journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    work_id INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    logged_at DATETIME NOT NULL,
    notification_uuid VARCHAR(36) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    instance_uuid VARCHAR(36) NOT NULL,
    kind VARCHAR(36) NOT NULL,
    act_key VARCHAR(255) NOT NULL,
    act VARCHAR(36) NOT NULL,
    task VARCHAR(100) NOT NULL,
    state VARCHAR(36) NOT NULL,
    progress REAL NOT NULL,
    note TEXT NULL,
    is_open BOOLEAN NOT NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_journal0work_id0epoch0seq ON journal (work_id, epoch, seq);

--bun:split

CREATE INDEX IF NOT EXISTS journal_notification_idx ON journal (notification_uuid, work_id, epoch, seq);

--bun:split

CREATE INDEX IF NOT EXISTS journal_open_idx ON journal (work_id, is_open);

--bun:split

CREATE TABLE IF NOT EXISTS claims (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host_uuid VARCHAR(36) NOT NULL,
    what VARCHAR(36) NOT NULL,
    reason VARCHAR(36) NOT NULL,
    detail VARCHAR(255) NOT NULL,
    prior TEXT NULL,
    work_id INTEGER NOT NULL,
    since DATETIME NOT NULL,
    seen DATETIME NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_claims0what ON claims (host_uuid, what, reason, detail);

--bun:split

CREATE INDEX IF NOT EXISTS claims_work_idx ON claims (work_id);

--bun:split

CREATE TABLE IF NOT EXISTS engines (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name VARCHAR(255) NOT NULL,
    host VARCHAR(255) NOT NULL,
    version VARCHAR(255) NOT NULL,
    started_at DATETIME NOT NULL,
    beat INTEGER NOT NULL,
    seen_at DATETIME NOT NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_engines0name ON engines (name);

--bun:split

CREATE INDEX IF NOT EXISTS engines_seen_idx ON engines (seen_at);
