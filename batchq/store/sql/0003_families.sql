-- Arrays, shares and consumable resources: what of them is searched.

-- The row whose spec this job shares: its array's. NULL for a job of its own. The children of an array stand right
-- behind it, `array_size` orders that are kept free for them.
ALTER TABLE jobs ADD COLUMN parent_ord INTEGER REFERENCES jobs (ord);
ALTER TABLE jobs ADD COLUMN array_size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN at_work INTEGER NOT NULL DEFAULT 0;

-- What placing reads beside the resources: `needs` as JSON, `longest` in microseconds, and the schedulingPriority
-- turned round, so that what starts first has the lowest `rank`.
ALTER TABLE jobs ADD COLUMN needs TEXT;
ALTER TABLE jobs ADD COLUMN longest INTEGER;
ALTER TABLE jobs ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;

-- Of jobs that are over nobody asks it.
UPDATE jobs SET longest = microseconds(asked.timeout), rank = -coalesce(asked.priority, 0)
FROM (
    SELECT
        ord,
        json_extract(spec, '$.timeout') AS timeout,
        json_extract(spec, '$.scheduling_priority') AS priority
    FROM specs
) AS asked
WHERE asked.ord = jobs.ord AND status NOT IN ('SUCCEEDED', 'FAILED')
    AND (asked.timeout IS NOT NULL OR asked.priority IS NOT NULL);

-- ListJobs shows no children of arrays, so these do not hold them.
DROP INDEX jobs_by_status;
DROP INDEX jobs_by_queue;
CREATE INDEX jobs_by_status ON jobs (queue, status, ord, share, parent_ord) WHERE parent_ord IS NULL;
CREATE INDEX jobs_by_queue ON jobs (queue, ord, name, definition, revision, created_at, share, parent_ord)
WHERE parent_ord IS NULL;

DROP INDEX jobs_runnable;
CREATE INDEX jobs_runnable ON jobs (
    queue, ord, id, millicpus, memory_mib, gpus, needs, longest, share, rank, status, misfit
)
WHERE status = 'RUNNABLE' AND misfit = 0;
CREATE INDEX jobs_runnable_in_share ON jobs (
    queue, share, rank, ord, id, millicpus, memory_mib, gpus, needs, longest, status, misfit
)
WHERE status = 'RUNNABLE' AND misfit = 0 AND share IS NOT NULL;
CREATE INDEX jobs_at_work ON jobs (at_work) WHERE at_work = 1;

-- Which jobs need which consumable resource, for ever. An array's row speaks for its children.
CREATE TABLE job_needs (
    resource TEXT NOT NULL,
    ord INTEGER NOT NULL REFERENCES jobs (ord),
    PRIMARY KEY (resource, ord)
) WITHOUT ROWID;

CREATE TABLE shares (
    queue TEXT NOT NULL,
    share TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (queue, share)
) WITHOUT ROWID;

CREATE TABLE used_up (
    resource TEXT PRIMARY KEY,
    units INTEGER NOT NULL
) WITHOUT ROWID;
