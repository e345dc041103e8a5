-- insert_job
INSERT INTO jobs (
    ord, id, version, queue, status, misfit, name, definition, revision, share, created_at,
    millicpus, memory_mib, gpus, state
)
VALUES (
    :ord, :id, :version, :queue, :status, :misfit, :name, :definition, :revision, :share, :created_at,
    :millicpus, :memory_mib, :gpus, :state
);

-- insert_spec
INSERT INTO specs (ord, spec) VALUES (:ord, :spec);

-- update_job
UPDATE jobs SET version = :version + 1, status = :status, misfit = :misfit, state = :state
WHERE ord = :ord AND id = :id AND version = :version;

-- insert_wait
INSERT OR IGNORE INTO waits (on_id, ord) VALUES (:on_id, :ord);

-- delete_wait
DELETE FROM waits WHERE on_id = :on_id AND ord = :ord;

-- insert_moment
INSERT INTO history (ord, number, value)
SELECT ord, (SELECT coalesce(max(number) + 1, 0) FROM history WHERE history.ord = jobs.ord), :value
FROM jobs WHERE id = :id;

-- insert_submission
INSERT INTO submissions (principal, invocation_id, body_sha256, job_id, at)
VALUES (:principal, :invocation_id, :body_sha256, :job_id, :at);

-- forget_submissions
DELETE FROM submissions WHERE (principal, invocation_id, body_sha256) IN (
    SELECT principal, invocation_id, body_sha256 FROM submissions WHERE at < :before ORDER BY at LIMIT :limit
);

-- insert_stream
INSERT INTO streams (name, created_at, value) VALUES (:name, :created_at, :value) ON CONFLICT (name) DO NOTHING;

-- job
SELECT state, spec FROM jobs JOIN specs USING (ord) WHERE id = :id;

-- job_of_order
SELECT state, spec FROM jobs JOIN specs USING (ord) WHERE ord = :ord;

-- active
SELECT state, spec FROM jobs JOIN specs USING (ord) WHERE status IN ('STARTING', 'RUNNING');

-- runnable
-- Its index is named: jobs_by_status looks as good to SQLite, and would read every misfit.
SELECT id, ord, millicpus, memory_mib, gpus FROM jobs INDEXED BY jobs_runnable
WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND ord > :after ORDER BY ord LIMIT :limit;

-- misfits
SELECT state, spec FROM jobs JOIN specs USING (ord)
WHERE status = 'RUNNABLE' AND misfit = 1 AND ord > :after ORDER BY ord LIMIT :limit;

-- dependents
SELECT state, spec FROM waits JOIN jobs USING (ord) JOIN specs USING (ord) WHERE on_id = :on_id;

-- submission
SELECT job_id FROM submissions
WHERE principal = :principal AND invocation_id = :invocation_id AND body_sha256 = :body_sha256;

-- last_order
SELECT max(ord) FROM jobs;

-- unfinished_in
SELECT count(*) FROM jobs
WHERE queue = :queue AND status IN ('SUBMITTED', 'PENDING', 'RUNNABLE', 'STARTING', 'RUNNING');

-- history
SELECT value FROM history WHERE ord = (SELECT ord FROM jobs WHERE id = :id) ORDER BY number;

-- stream
SELECT name, value FROM streams WHERE name = :name;

-- streams
SELECT name, value FROM streams WHERE name >= :start AND name > :after AND name < :beyond ORDER BY name LIMIT :limit;

-- newest_streams
SELECT name, value FROM streams ORDER BY created_at DESC, number DESC LIMIT :limit OFFSET :offset;
