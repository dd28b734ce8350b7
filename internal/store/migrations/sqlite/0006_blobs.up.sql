-- Blobs, where they are, and what is copied. Of blobs, unused is 0 while one is in use, and due is 1 while the replicator is to look
-- at it. Of transfers, ended is 0 while one runs, else the row's id: one at a time of a blob to a host.

CREATE TABLE IF NOT EXISTS blobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    size INTEGER NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    want_copies INTEGER NOT NULL,
    unused INTEGER NOT NULL,
    durability VARCHAR(36) NOT NULL,
    copies INTEGER NOT NULL,
    why TEXT NULL,
    lost_by VARCHAR(255) NOT NULL,
    touch INTEGER NOT NULL,
    due INTEGER NOT NULL,
    retry_at DATETIME NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_blobs0uuid ON blobs (uuid);

--bun:split

CREATE INDEX IF NOT EXISTS blobs_due_idx ON blobs (due, copies, unused, size, id);

--bun:split

CREATE INDEX IF NOT EXISTS blobs_retry_idx ON blobs (due, retry_at);

--bun:split

CREATE INDEX IF NOT EXISTS blobs_durability_idx ON blobs (durability, size);

--bun:split

CREATE TABLE IF NOT EXISTS blob_locations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    blob_uuid VARCHAR(36) NOT NULL,
    host_uuid VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    episode_uuid VARCHAR(36) NOT NULL,
    why TEXT NULL,
    version INTEGER NOT NULL,
    since DATETIME NOT NULL,
    verified_at DATETIME NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_blob_locations0blob ON blob_locations (blob_uuid, host_uuid);

--bun:split

CREATE INDEX IF NOT EXISTS blob_locations_host_idx ON blob_locations (host_uuid, state, id);

--bun:split

CREATE INDEX IF NOT EXISTS blob_locations_verified_idx ON blob_locations (host_uuid, state, verified_at);

--bun:split

CREATE TABLE IF NOT EXISTS blob_transfers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid VARCHAR(36) NOT NULL,
    blob_uuid VARCHAR(36) NOT NULL,
    source_uuid VARCHAR(36) NOT NULL,
    target_uuid VARCHAR(36) NOT NULL,
    state VARCHAR(36) NOT NULL,
    rescue BOOLEAN NOT NULL,
    size INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    why TEXT NULL,
    told BOOLEAN NOT NULL,
    ended INTEGER NOT NULL,
    started_at DATETIME NOT NULL,
    moved_at DATETIME NOT NULL,
    ended_at DATETIME NULL
);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_blob_transfers0uuid ON blob_transfers (uuid);

--bun:split

CREATE UNIQUE INDEX IF NOT EXISTS uniq_blob_transfers0blob ON blob_transfers (blob_uuid, target_uuid, ended);

--bun:split

CREATE INDEX IF NOT EXISTS blob_transfers_target_idx ON blob_transfers (target_uuid, ended);

--bun:split

CREATE INDEX IF NOT EXISTS blob_transfers_told_idx ON blob_transfers (target_uuid, state, told);

--bun:split

CREATE INDEX IF NOT EXISTS blob_transfers_ended_idx ON blob_transfers (ended, ended_at);

--bun:split

CREATE INDEX IF NOT EXISTS blob_transfers_state_idx ON blob_transfers (state, id);

--bun:split

CREATE TABLE IF NOT EXISTS blob_sweep (
    id INTEGER NOT NULL PRIMARY KEY,
    sweep_cursor INTEGER NOT NULL
);
