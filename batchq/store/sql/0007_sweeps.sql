-- One order to stop many jobs: which it means is decided once, and they are told a few at a time.

CREATE TABLE sweeps (
    number INTEGER PRIMARY KEY,
    value TEXT NOT NULL
);

-- Those that are yet to be told. `node` is the number of a gang's node, -1 for a job as a whole.
CREATE TABLE sweep_jobs (
    sweep INTEGER NOT NULL,
    ord INTEGER NOT NULL,
    node INTEGER NOT NULL,
    PRIMARY KEY (sweep, ord, node)
) WITHOUT ROWID;

-- What is not over, by what it is chosen by that never changes: a job comes and goes here once in its life.
CREATE INDEX jobs_unfinished ON jobs (owner, account, queue, name, parent_ord, ord) WHERE finished_at IS NULL;
