-- insert_job
INSERT INTO jobs (
    ord, id, version, queue, status, misfit, name, definition, revision, share, created_at,
    millicpus, memory_mib, gpus, state, parent_ord, array_size, at_work, needs, longest, rank, owner, account
)
VALUES (
    :ord, :id, :version, :queue, :status, :misfit, :name, :definition, :revision, :share, :created_at,
    :millicpus, :memory_mib, :gpus, :state, :parent_ord, :array_size, :at_work, :needs, :longest, :rank, :owner, :account
);

-- insert_spec
INSERT INTO specs (ord, spec) VALUES (:ord, :spec);

-- insert_need
INSERT OR IGNORE INTO job_needs (resource, ord) VALUES (:resource, :ord);

-- update_state
-- Of a job that stays what it is searched as: an index is written again for each column of it that is set, whatever to.
UPDATE jobs SET version = :version + 1, state = :state
WHERE ord = :ord AND id = :id AND version = :version
    AND status = :status AND misfit = :misfit AND at_work = :at_work;

-- update_job
UPDATE jobs SET version = :version + 1, status = :status, misfit = :misfit, at_work = :at_work, state = :state
WHERE ord = :ord AND id = :id AND version = :version;

-- end_job
-- Apart from the others, for the index of ends.
UPDATE jobs
SET version = :version + 1, status = :status, misfit = :misfit, at_work = :at_work, state = :state,
    finished_at = :finished_at
WHERE ord = :ord AND id = :id AND version = :version;

-- version
SELECT version FROM jobs WHERE id = :id;

-- insert_wait
INSERT OR IGNORE INTO waits (on_id, ord) VALUES (:on_id, :ord);

-- delete_wait
DELETE FROM waits WHERE on_id = :on_id AND ord = :ord;

-- insert_moment
INSERT INTO history (ord, number, value)
VALUES (:ord, (SELECT coalesce(max(number) + 1, 0) FROM history WHERE ord = :ord), :value);

-- insert_moment_of
-- Of a job that is not written with it, and so may not be there.
INSERT INTO history (ord, number, value)
SELECT ord, (SELECT coalesce(max(number) + 1, 0) FROM history WHERE history.ord = jobs.ord), :value
FROM jobs WHERE id = :id;

-- note_end
UPDATE jobs SET finished_at = :at WHERE id = :id;

-- insert_submission
INSERT INTO submissions (principal, invocation_id, body_sha256, job_id, at)
VALUES (:principal, :invocation_id, :body_sha256, :job_id, :at)
ON CONFLICT DO UPDATE SET job_id = excluded.job_id, at = excluded.at WHERE at < :before;

-- forget_submissions
DELETE FROM submissions WHERE (principal, invocation_id, body_sha256) IN (
    SELECT principal, invocation_id, body_sha256 FROM submissions WHERE at < :before ORDER BY at LIMIT :limit
);

-- insert_stream
INSERT INTO streams (name, created_at, owner, account, value) VALUES (:name, :created_at, :owner, :account, :value)
ON CONFLICT (name) DO NOTHING;

-- jobs
SELECT jobs.ord, jobs.id, version, status, state, spec
FROM json_each(:ids) AS named CROSS JOIN jobs ON jobs.id = named.value
CROSS JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord);

-- owners
SELECT jobs.id, owner, account FROM json_each(:ids) AS named CROSS JOIN jobs ON jobs.id = named.value;

-- jobs_of_orders
SELECT jobs.ord, jobs.id, version, status, state, spec
FROM json_each(:orders) AS named CROSS JOIN jobs ON jobs.ord = named.value
CROSS JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord);

-- active
SELECT jobs.ord, id, version, status, state, spec FROM jobs JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord) WHERE status IN ('STARTING', 'RUNNING');

-- runnable
-- Its index is named: jobs_by_status looks as good to SQLite, and would read every misfit.
SELECT id, ord, millicpus, memory_mib, gpus, needs, longest, share, rank, account FROM jobs INDEXED BY jobs_runnable
WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND ord > :after ORDER BY ord LIMIT :limit;

-- runnable_in_share
-- In two: (rank, ord) > (:rank, :after) would read again all that has this rank, for every page of it.
SELECT id, ord, millicpus, memory_mib, gpus, needs, longest, share, rank, account FROM jobs INDEXED BY jobs_runnable_in_share
WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND share = :share AND rank = :rank AND ord > :after
UNION ALL
SELECT id, ord, millicpus, memory_mib, gpus, needs, longest, share, rank, account FROM jobs INDEXED BY jobs_runnable_in_share
WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND share = :share AND rank > :rank
ORDER BY rank, ord LIMIT :limit;

-- runnable_beside
-- The first few of each account that has any and is not one of `beside`: what waits in those is passed over.
WITH RECURSIVE waiting (account) AS (
    SELECT min(account) FROM jobs INDEXED BY jobs_runnable_of_account
    WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue
    UNION ALL
    SELECT (
        SELECT min(jobs.account) FROM jobs INDEXED BY jobs_runnable_of_account
        WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND jobs.account > waiting.account
    )
    FROM waiting WHERE waiting.account IS NOT NULL
)
SELECT id, ord, millicpus, memory_mib, gpus, needs, longest, share, rank, jobs.account
FROM waiting CROSS JOIN jobs ON jobs.ord IN (
    SELECT own.ord FROM jobs AS own INDEXED BY jobs_runnable_of_account
    WHERE own.status = 'RUNNABLE' AND own.misfit = 0 AND own.queue = :queue AND own.account = waiting.account
        AND own.ord > :after
    ORDER BY own.ord LIMIT :limit
)
WHERE waiting.account IS NOT NULL AND waiting.account NOT IN (SELECT value FROM json_each(:beside) AS named)
ORDER BY ord LIMIT :limit;

-- runnable_in_share_beside
WITH RECURSIVE waiting (account) AS (
    SELECT min(account) FROM jobs INDEXED BY jobs_runnable_of_account_in_share
    WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND share = :share
    UNION ALL
    SELECT (
        SELECT min(jobs.account) FROM jobs INDEXED BY jobs_runnable_of_account_in_share
        WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND share = :share
            AND jobs.account > waiting.account
    )
    FROM waiting WHERE waiting.account IS NOT NULL
)
SELECT id, ord, millicpus, memory_mib, gpus, needs, longest, share, rank, jobs.account
FROM waiting CROSS JOIN jobs ON jobs.ord IN (
    SELECT own.ord FROM jobs AS own INDEXED BY jobs_runnable_of_account_in_share
    WHERE own.status = 'RUNNABLE' AND own.misfit = 0 AND own.queue = :queue AND own.share = :share
        AND own.account = waiting.account AND (own.rank, own.ord) > (:rank, :after)
    ORDER BY own.rank, own.ord LIMIT :limit
)
WHERE waiting.account IS NOT NULL AND waiting.account NOT IN (SELECT value FROM json_each(:beside) AS named)
ORDER BY rank, ord LIMIT :limit;

-- waiting_shares
-- From one share straight to the next: what waits in each is passed over.
WITH RECURSIVE waiting (share) AS (
    SELECT min(share) FROM jobs INDEXED BY jobs_runnable_in_share
    WHERE status = 'RUNNABLE' AND misfit = 0 AND share IS NOT NULL AND queue = :queue
    UNION ALL
    SELECT (
        SELECT min(jobs.share) FROM jobs INDEXED BY jobs_runnable_in_share
        WHERE status = 'RUNNABLE' AND misfit = 0 AND queue = :queue AND jobs.share > waiting.share
    )
    FROM waiting WHERE waiting.share IS NOT NULL
)
SELECT share FROM waiting WHERE share IS NOT NULL;

-- misfits
SELECT jobs.ord, id, version, status, state, spec FROM jobs JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord)
WHERE status = 'RUNNABLE' AND misfit = 1 AND jobs.ord > :after ORDER BY jobs.ord LIMIT :limit;

-- dependents
-- Of each job as many as a page has at most: what else waits for it is not read.
SELECT jobs.ord, jobs.id, version, status, state, spec
FROM (
    SELECT DISTINCT waits.ord FROM json_each(:ids) AS named CROSS JOIN waits
    ON waits.on_id = named.value AND waits.ord IN (
        SELECT first.ord FROM waits AS first
        WHERE first.on_id = named.value AND first.ord > :after ORDER BY first.ord LIMIT :limit
    )
    ORDER BY waits.ord LIMIT :limit
) AS page CROSS JOIN jobs ON jobs.ord = page.ord
CROSS JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord);

-- ended_dependencies
-- Once at a start: who waits may have to be judged. An array may decide before its end.
SELECT jobs.id FROM (SELECT DISTINCT on_id FROM waits AS waiting) AS named CROSS JOIN jobs ON jobs.id = named.on_id
WHERE jobs.finished_at IS NOT NULL OR jobs.array_size > 0;

-- waiting_for_others
SELECT count(*) FROM waits;

-- submission
SELECT job_id FROM submissions
WHERE principal = :principal AND invocation_id = :invocation_id AND body_sha256 = :body_sha256;

-- parents_at_work
SELECT jobs.ord, id, version, status, state, spec FROM jobs JOIN specs ON specs.ord = jobs.ord WHERE at_work = 1 ORDER BY jobs.ord;

-- array
SELECT ord, array_size FROM jobs WHERE id = :id;

-- unfinished_children
SELECT jobs.ord, id, version, status, state, spec FROM jobs JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord BETWEEN :first AND :last AND status NOT IN ('SUCCEEDED', 'FAILED') ORDER BY jobs.ord;

-- children
SELECT jobs.ord, id, version, status, state, spec FROM jobs JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord BETWEEN :first AND :last ORDER BY jobs.ord DESC LIMIT :limit;

-- children_of_status
SELECT jobs.ord, id, version, status, state, spec FROM jobs JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord BETWEEN :first AND :last AND status = :status ORDER BY jobs.ord DESC LIMIT :limit;

-- children_failed_or_waiting
SELECT jobs.ord, id, version, status, state, spec FROM jobs JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord BETWEEN :first AND :last AND status IN ('FAILED', 'SUBMITTED', 'PENDING', 'RUNNABLE')
ORDER BY jobs.ord DESC LIMIT :limit;

-- last_order
-- An array has taken the orders of all its children, whether they are there or not.
SELECT own.ord + own.array_size FROM jobs AS newest JOIN jobs AS own ON own.ord = coalesce(newest.parent_ord, newest.ord)
WHERE newest.ord = (SELECT max(ord) FROM jobs);

-- unfinished_in
SELECT count(*) FROM jobs
WHERE queue = :queue AND parent_ord IS NULL AND status IN ('SUBMITTED', 'PENDING', 'RUNNABLE', 'STARTING', 'RUNNING');

-- queued
-- An array stands for the children that it has yet to make, and not for itself.
SELECT account, sum(number) FROM (
    SELECT account, count(*) AS number FROM jobs INDEXED BY jobs_runnable_of_account
    WHERE status = 'RUNNABLE' AND misfit = 0 GROUP BY queue, account
    UNION ALL
    SELECT account, count(*) FROM jobs INDEXED BY jobs_misfits WHERE status = 'RUNNABLE' AND misfit = 1 GROUP BY account
    UNION ALL
    SELECT account, sum(
        CASE WHEN array_size = 0 THEN 1
        ELSE array_size - (SELECT count(*) FROM jobs AS child WHERE child.parent_ord = jobs.ord) END
    )
    FROM jobs INDEXED BY jobs_pending WHERE status IN ('SUBMITTED', 'PENDING') GROUP BY account
)
GROUP BY account;

-- shares
SELECT queue, share, value FROM shares ORDER BY queue, share;

-- share_counted
-- Looks at every job, but nobody asks it while what is kept of a share can be read.
SELECT
    count(*) FILTER (WHERE parent_ord IS NULL AND status NOT IN ('SUCCEEDED', 'FAILED')),
    coalesce(sum(millicpus) FILTER (WHERE status IN ('STARTING', 'RUNNING')), 0)
FROM jobs WHERE queue = :queue AND share = :share;

-- put_share
INSERT INTO shares (queue, share, value) VALUES (:queue, :share, :value)
ON CONFLICT (queue, share) DO UPDATE SET value = :value;

-- used_up
SELECT resource, units FROM used_up ORDER BY resource;

-- put_used_up
INSERT INTO used_up (resource, units) VALUES (:resource, :units) ON CONFLICT (resource) DO UPDATE SET units = :units;

-- restoration
SELECT value FROM meta WHERE name = 'restoration';

-- engine
SELECT value FROM meta WHERE name = 'engine';

-- put_engine
INSERT OR REPLACE INTO meta (name, value) VALUES ('engine', :value);

-- put_restoration
INSERT OR REPLACE INTO meta (name, value) VALUES ('restoration', :value);

-- history
SELECT value FROM history WHERE ord = (SELECT ord FROM jobs WHERE id = :id) ORDER BY number;

-- stream
SELECT name, value FROM streams WHERE name = :name;

-- streams
SELECT name, value FROM streams WHERE name >= :start AND name > :after AND name < :beyond ORDER BY name;

-- streams_of_owner
SELECT name, value FROM streams INDEXED BY streams_of_owner
WHERE owner = :whose AND name >= :start AND name > :after AND name < :beyond ORDER BY name;

-- streams_of_account
SELECT name, value FROM streams INDEXED BY streams_of_account
WHERE account = :whose AND name >= :start AND name > :after AND name < :beyond ORDER BY name;

-- newest_streams
SELECT name, value FROM streams WHERE (created_at, name) < (:at, :name) ORDER BY created_at DESC, name DESC;

-- newest_streams_of_owner
SELECT name, value, created_at FROM streams INDEXED BY streams_of_owner_by_age
WHERE owner = :whose AND (created_at, name) < (:at, :name) ORDER BY created_at DESC, name DESC;

-- newest_streams_of_account
SELECT name, value, created_at FROM streams INDEXED BY streams_of_account_by_age
WHERE account = :whose AND (created_at, name) < (:at, :name) ORDER BY created_at DESC, name DESC;

-- newest
SELECT created_at FROM jobs WHERE ord = (SELECT max(ord) FROM jobs);
