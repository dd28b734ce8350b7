-- Blobs, where they are, and what is copied. Of blobs, unused is 0 while one is in use, and due is 1 while the replicator is to look
-- at it. Of transfers, ended is 0 while one runs, else the row's id: one at a time of a blob to a host.

CREATE TABLE IF NOT EXISTS blobs (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL,
    size BIGINT NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    want_copies INT NOT NULL,
    unused INT NOT NULL,
    durability VARCHAR(36) NOT NULL,
    copies INT NOT NULL,
    why TEXT NULL,
    lost_by VARCHAR(255) NOT NULL,
    touch BIGINT NOT NULL,
    due INT NOT NULL,
    retry_at DATETIME(6) NULL,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NULL,
    CONSTRAINT uniq_blobs0uuid UNIQUE (uuid),
    INDEX blobs_due_idx (due, copies, unused, size, id),
    INDEX blobs_retry_idx (due, retry_at),
    INDEX blobs_durability_idx (durability, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS blob_locations (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    blob_uuid VARCHAR(36) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    episode_uuid VARCHAR(36) NOT NULL,
    why TEXT NULL,
    version BIGINT NOT NULL,
    since DATETIME(6) NOT NULL,
    verified_at DATETIME(6) NULL,
    CONSTRAINT uniq_blob_locations0blob UNIQUE (blob_uuid, host_uuid),
    INDEX blob_locations_host_idx (host_uuid, state, id),
    INDEX blob_locations_verified_idx (host_uuid, state, verified_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS blob_transfers (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL,
    blob_uuid VARCHAR(36) NOT NULL,
    source_uuid VARCHAR(36) NOT NULL,
    target_uuid VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    rescue TINYINT(1) NOT NULL,
    size BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    why TEXT NULL,
    told TINYINT(1) NOT NULL,
    ended BIGINT NOT NULL,
    started_at DATETIME(6) NOT NULL,
    moved_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NULL,
    CONSTRAINT uniq_blob_transfers0uuid UNIQUE (uuid),
    CONSTRAINT uniq_blob_transfers0blob UNIQUE (blob_uuid, target_uuid, ended),
    INDEX blob_transfers_target_idx (target_uuid, ended),
    INDEX blob_transfers_told_idx (target_uuid, state, told),
    INDEX blob_transfers_ended_idx (ended, ended_at),
    INDEX blob_transfers_state_idx (state, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

--bun:split

CREATE TABLE IF NOT EXISTS blob_sweep (
    id INT NOT NULL PRIMARY KEY,
    sweep_cursor BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
