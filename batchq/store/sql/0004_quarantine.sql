-- What could not be read, as it was, when it was put aside: `part` is the column of the job that it stood in.

CREATE TABLE quarantine (
    number INTEGER PRIMARY KEY,
    ord INTEGER NOT NULL,
    part TEXT NOT NULL,
    raw BLOB
);
CREATE INDEX quarantine_by_job ON quarantine (ord);
