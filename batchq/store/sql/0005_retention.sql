-- Finished jobs are forgotten after a while, and their logs with them.

-- When a job came to its end, by the engine's clock, in microseconds; NULL before.
ALTER TABLE jobs ADD COLUMN finished_at INTEGER;

-- What is not JSON has a time of its own, too.
UPDATE jobs SET finished_at = coalesce(
    CASE WHEN json_valid(state) THEN
        strftime('%s', coalesce(json_extract(state, '$.stopped_at'), json_extract(state, '$.created_at'))) * 1000000
    END,
    created_at * 1000
)
WHERE status IN ('SUCCEEDED', 'FAILED');

-- A family is forgotten as a whole, so its children need not be found here.
CREATE INDEX jobs_finished ON jobs (finished_at, ord, id, array_size)
WHERE finished_at IS NOT NULL AND parent_ord IS NULL;

-- When a job's row goes SQLite looks whether any other belongs to it; without these it would read whole tables.
CREATE INDEX jobs_of_array ON jobs (parent_ord) WHERE parent_ord IS NOT NULL;
CREATE INDEX waits_of_job ON waits (ord);
CREATE INDEX needs_of_job ON job_needs (ord);

-- Logs of jobs that are forgotten, whose files may yet be there.
CREATE TABLE discarded (
    log_id TEXT PRIMARY KEY
) WITHOUT ROWID;
