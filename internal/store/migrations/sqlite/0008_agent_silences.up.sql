-- Which silence of a host's agent was told: the time of its last report before it. A new table only: an older salvor beside this one does not miss it.

CREATE TABLE IF NOT EXISTS agent_silences (
    host_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    told_of DATETIME NOT NULL
);
