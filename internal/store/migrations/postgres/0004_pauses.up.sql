-- What operators have paused: one segment, or everything under the empty scope.

CREATE TABLE IF NOT EXISTS pauses (
    scope VARCHAR(36) COLLATE "C" NOT NULL PRIMARY KEY,
    paused_by VARCHAR(255) COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    paused_at TIMESTAMP(6) NOT NULL,
    paused_until TIMESTAMP(6) NULL
);
