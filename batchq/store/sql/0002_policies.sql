-- What fair-share queues go by, and what jobs use up.

CREATE TABLE policies (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE consumables (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- By its token an update that comes again is known.
CREATE TABLE consumable_updates (
    resource TEXT NOT NULL,
    token TEXT NOT NULL,
    at INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource, token)
) WITHOUT ROWID;
CREATE INDEX consumable_updates_by_age ON consumable_updates (at);
