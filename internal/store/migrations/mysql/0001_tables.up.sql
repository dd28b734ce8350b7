-- Masakari's four tables with its columns, names and meaning (contract section 7), ours beside them; then our own tables.
-- Masakari's created_at, updated_at and deleted_at are whole seconds; other times have microseconds; all are UTC.
-- deleted and ended are 0 while a row is live, its own id afterwards.
-- utf8mb4_bin: text compares and sorts by code point, as on the other databases; names are made unique by name_key.

CREATE TABLE IF NOT EXISTS failover_segments (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INT NOT NULL DEFAULT 0,
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL,
    name VARCHAR(255) NOT NULL,
    service_type VARCHAR(255) NOT NULL,
    description TEXT NULL,
    recovery_method VARCHAR(36) NOT NULL,
    enabled TINYINT(1) NULL,
    -- ours
    name_key VARCHAR(255) NOT NULL,
    trust_reports TINYINT(1) NULL,
    touch BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT uniq_segment0name0deleted UNIQUE (name, deleted),
    CONSTRAINT uniq_segment0name_key0deleted UNIQUE (name_key, deleted),
    CONSTRAINT uniq_segments0uuid UNIQUE (uuid),
    INDEX segments_service_type_idx (service_type),
    INDEX segments_list_idx (deleted, created_at, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS hosts (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INT NOT NULL DEFAULT 0,
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL,
    name VARCHAR(255) NOT NULL,
    reserved TINYINT(1) NOT NULL,
    type VARCHAR(255) NOT NULL,
    control_attributes TEXT NOT NULL,
    failover_segment_id VARCHAR(36) NOT NULL,
    on_maintenance TINYINT(1) NOT NULL,
    -- ours
    name_key VARCHAR(255) NOT NULL,
    reserved_for BIGINT NOT NULL DEFAULT 0,
    last_started_at DATETIME(6) NULL,
    touch BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT uniq_host0name0deleted UNIQUE (name, deleted),
    CONSTRAINT uniq_host0name_key0deleted UNIQUE (name_key, deleted),
    CONSTRAINT uniq_host0uuid UNIQUE (uuid),
    INDEX hosts_type_idx (type),
    INDEX hosts_list_idx (failover_segment_id, deleted, created_at, id),
    INDEX hosts_reserved_for_idx (reserved_for),
    CONSTRAINT hosts_failover_segment_fk FOREIGN KEY (failover_segment_id) REFERENCES failover_segments (uuid)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS notifications (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INT NOT NULL DEFAULT 0,
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    notification_uuid VARCHAR(36) NOT NULL,
    generated_time DATETIME(6) NOT NULL,
    source_host_uuid VARCHAR(36) NOT NULL,
    type VARCHAR(36) NOT NULL,
    payload TEXT NULL,
    status VARCHAR(36) NOT NULL,
    failover_segment_uuid VARCHAR(36) NULL,
    message TEXT NULL,
    -- ours
    unit_key VARCHAR(100) NOT NULL,
    event VARCHAR(36) NOT NULL DEFAULT '',
    CONSTRAINT uniq_notification0uuid UNIQUE (notification_uuid),
    INDEX notifications_list_idx (deleted, created_at, id),
    INDEX notifications_status_idx (deleted, status, created_at, id),
    INDEX notifications_type_idx (deleted, type, created_at, id),
    INDEX notifications_generated_idx (deleted, generated_time),
    INDEX notifications_host_idx (source_host_uuid, deleted, created_at, id),
    INDEX notifications_unit_idx (unit_key, status, id),
    INDEX notifications_twin_idx (unit_key, generated_time)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS vmoves (
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL,
    deleted_at DATETIME NULL,
    deleted INT NOT NULL DEFAULT 0,
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL,
    notification_uuid VARCHAR(36) NOT NULL,
    instance_uuid VARCHAR(36) NOT NULL,
    instance_name VARCHAR(255) NOT NULL,
    source_host VARCHAR(255) NULL,
    dest_host VARCHAR(255) NULL,
    start_time DATETIME(6) NULL,
    end_time DATETIME(6) NULL,
    type VARCHAR(36) NULL,
    status VARCHAR(255) NULL,
    message TEXT NULL,
    -- ours
    stage VARCHAR(36) NOT NULL DEFAULT '',
    attempts INT NOT NULL DEFAULT 0,
    pass INT NOT NULL DEFAULT 0,
    ha TINYINT(1) NOT NULL DEFAULT 0,
    priority BIGINT NOT NULL DEFAULT 0,
    born DATETIME(6) NULL,
    prior_vm VARCHAR(36) NOT NULL DEFAULT '',
    prior_on TINYINT(1) NOT NULL DEFAULT 0,
    want VARCHAR(36) NOT NULL DEFAULT '',
    was_locked TINYINT(1) NOT NULL DEFAULT 0,
    locked TINYINT(1) NOT NULL DEFAULT 0,
    order_at DATETIME(6) NULL,
    order_base BIGINT NOT NULL DEFAULT 0,
    order_record BIGINT NOT NULL DEFAULT 0,
    order_target VARCHAR(255) NOT NULL DEFAULT '',
    order_answered TINYINT(1) NOT NULL DEFAULT 0,
    lost_act VARCHAR(36) NOT NULL DEFAULT '',
    lost_at DATETIME(6) NULL,
    refused_by VARCHAR(255) NOT NULL DEFAULT '',
    final TINYINT(1) NOT NULL DEFAULT 0,
    not_before DATETIME(6) NULL,
    waits INT NOT NULL DEFAULT 0,
    outcome VARCHAR(36) NOT NULL DEFAULT '',
    retry_wish INT NOT NULL DEFAULT 0,
    retry_done INT NOT NULL DEFAULT 0,
    CONSTRAINT uniq_vmove0uuid UNIQUE (uuid),
    INDEX vmoves_list_idx (notification_uuid, deleted, created_at, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS work (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    kind VARCHAR(36) NOT NULL,
    unit_key VARCHAR(100) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    segment_uuid VARCHAR(36) NOT NULL,
    notification_uuid VARCHAR(36) NOT NULL,
    owner VARCHAR(255) NOT NULL,
    epoch BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    ttl_ms BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NULL,
    ended BIGINT NOT NULL DEFAULT 0,
    next_look_at DATETIME(6) NOT NULL,
    signals BIGINT NOT NULL,
    seen_signals BIGINT NOT NULL,
    cancel_by VARCHAR(255) NOT NULL,
    hold_by VARCHAR(255) NOT NULL,
    hold_reason TEXT NULL,
    hold_until DATETIME(6) NULL,
    release_by VARCHAR(255) NOT NULL,
    releases BIGINT NOT NULL,
    retry_by VARCHAR(255) NOT NULL,
    retries BIGINT NOT NULL,
    step VARCHAR(36) NOT NULL,
    attempt INT NOT NULL,
    started_at DATETIME(6) NULL,
    proof VARCHAR(36) NOT NULL,
    proof_at DATETIME(6) NULL,
    proof_text TEXT NULL,
    prepared TINYINT(1) NOT NULL,
    held_at VARCHAR(36) NOT NULL,
    held_why TEXT NULL,
    held_since DATETIME(6) NULL,
    listed TINYINT(1) NOT NULL,
    failures INT NOT NULL,
    wake_at DATETIME(6) NULL,
    released BIGINT NOT NULL,
    retried BIGINT NOT NULL,
    waived VARCHAR(255) NOT NULL,
    returned TINYINT(1) NOT NULL,
    CONSTRAINT uniq_work0unit_key0ended UNIQUE (unit_key, ended),
    INDEX work_look_idx (ended, next_look_at),
    INDEX work_notification_idx (notification_uuid),
    INDEX work_host_idx (host_uuid, ended),
    INDEX work_rate_idx (segment_uuid, kind, started_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS journal (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    work_id BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    logged_at DATETIME(6) NOT NULL,
    notification_uuid VARCHAR(36) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    instance_uuid VARCHAR(36) NOT NULL,
    kind VARCHAR(36) NOT NULL,
    act_key VARCHAR(255) NOT NULL,
    act VARCHAR(36) NOT NULL,
    task VARCHAR(100) NOT NULL,
    state VARCHAR(36) NOT NULL,
    progress DOUBLE NOT NULL,
    note TEXT NULL,
    is_open TINYINT(1) NOT NULL,
    CONSTRAINT uniq_journal0work_id0epoch0seq UNIQUE (work_id, epoch, seq),
    INDEX journal_notification_idx (notification_uuid, work_id, epoch, seq),
    INDEX journal_open_idx (work_id, is_open)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS claims (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    host_uuid VARCHAR(36) NOT NULL,
    what VARCHAR(36) NOT NULL,
    reason VARCHAR(36) NOT NULL,
    detail VARCHAR(255) NOT NULL,
    prior TEXT NULL,
    work_id BIGINT NOT NULL,
    since DATETIME(6) NOT NULL,
    seen DATETIME(6) NULL,
    CONSTRAINT uniq_claims0what UNIQUE (host_uuid, what, reason, detail),
    INDEX claims_work_idx (work_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS engines (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    host VARCHAR(255) NOT NULL,
    version VARCHAR(255) NOT NULL,
    started_at DATETIME(6) NOT NULL,
    beat BIGINT NOT NULL,
    seen_at DATETIME(6) NOT NULL,
    CONSTRAINT uniq_engines0name UNIQUE (name),
    INDEX engines_seen_idx (seen_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
