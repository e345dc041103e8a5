-- The first schema. Columns are what is searched; what is only carried is JSON (`state`, `spec`, `value`).

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- `ord` is the job's order, and so every index below ends in it.
CREATE TABLE jobs (
    ord INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    misfit INTEGER NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    revision INTEGER NOT NULL,
    share TEXT,
    created_at INTEGER NOT NULL,
    millicpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    state TEXT NOT NULL
);

-- Apart from `jobs`, so that a change of status does not write again what never changes.
CREATE TABLE specs (
    ord INTEGER PRIMARY KEY REFERENCES jobs,
    spec TEXT NOT NULL
);

-- ListJobs: one status, or a walk through the queue; both are read in the index alone, whatever the filter.
CREATE INDEX jobs_by_status ON jobs (queue, status, ord, share);
CREATE INDEX jobs_by_queue ON jobs (queue, ord, name, definition, revision, created_at, share);

-- What the engine asks for. These hold only what waits or runs, so finished jobs cost them nothing.
CREATE INDEX jobs_runnable ON jobs (queue, ord, millicpus, memory_mib, gpus, id, status, misfit)
WHERE status = 'RUNNABLE' AND misfit = 0;
CREATE INDEX jobs_misfits ON jobs (misfit) WHERE status = 'RUNNABLE' AND misfit = 1;
CREATE INDEX jobs_active ON jobs (status) WHERE status IN ('STARTING', 'RUNNING');

-- Who waits for whom: only as long as the one who waits is SUBMITTED or PENDING.
CREATE TABLE waits (
    on_id TEXT NOT NULL,
    ord INTEGER NOT NULL REFERENCES jobs,
    PRIMARY KEY (on_id, ord)
) WITHOUT ROWID;

CREATE TABLE history (
    ord INTEGER NOT NULL REFERENCES jobs,
    number INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (ord, number)
) WITHOUT ROWID;

CREATE TABLE submissions (
    principal TEXT NOT NULL,
    invocation_id TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    job_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (principal, invocation_id, body_sha256)
) WITHOUT ROWID;
CREATE INDEX submissions_by_age ON submissions (at);

CREATE TABLE streams (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX streams_by_age ON streams (created_at);

CREATE TABLE environments (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE queues (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE definitions (
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name, revision)
);
CREATE INDEX definitions_by_status ON definitions (status, name, revision);
