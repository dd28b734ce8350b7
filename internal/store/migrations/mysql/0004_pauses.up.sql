-- What operators have paused: one segment, or everything under the empty scope.

CREATE TABLE IF NOT EXISTS pauses (
    scope VARCHAR(36) NOT NULL PRIMARY KEY,
    paused_by VARCHAR(255) NOT NULL,
    reason TEXT NOT NULL,
    paused_at DATETIME(6) NOT NULL,
    paused_until DATETIME(6) NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
