-- The failure domain that the agent of a host has named: copies go to another one first.

CREATE TABLE IF NOT EXISTS blob_hosts (
    host_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    domain VARCHAR(255) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
