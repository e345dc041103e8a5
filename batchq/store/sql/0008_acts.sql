-- Who did what, when, and by which request. `mark` is of what was noted beside the database, and taken over.

CREATE TABLE acts (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    user TEXT NOT NULL,
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    request_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    about TEXT NOT NULL,
    outcome TEXT NOT NULL,
    mark TEXT
);

CREATE INDEX acts_by_time ON acts (at);
CREATE INDEX acts_by_user ON acts (user, at);
CREATE INDEX acts_by_account ON acts (account, at);
CREATE INDEX acts_about ON acts (about, at);
CREATE UNIQUE INDEX acts_taken_over ON acts (mark) WHERE mark IS NOT NULL;
