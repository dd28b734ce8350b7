-- What operators have paused: one segment, or everything under the empty scope.

CREATE TABLE IF NOT EXISTS pauses (
    scope VARCHAR(36) NOT NULL PRIMARY KEY,
    paused_by VARCHAR(255) NOT NULL,
    reason TEXT NOT NULL,
    paused_at DATETIME NOT NULL,
    paused_until DATETIME NULL
);
