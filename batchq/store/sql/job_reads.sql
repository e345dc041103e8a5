-- Reads of jobs by the engine and by DescribeJobs.

-- jobs_by_id
SELECT jobs.sequence, jobs.id, version, status, state, spec
FROM json_each(:ids) AS named CROSS JOIN jobs ON jobs.id = named.value
CROSS JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence);

-- jobs_by_sequence
SELECT jobs.sequence, jobs.id, version, status, state, spec
FROM json_each(:sequences) AS named CROSS JOIN jobs ON jobs.sequence = named.value
CROSS JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence);

-- reruns
SELECT named.value, (SELECT id FROM jobs WHERE rerun_of = named.value ORDER BY sequence DESC LIMIT 1)
FROM json_each(:ids) AS named;

-- newest_of_lines
-- Of the jobs that repeat one another. With max(), SQLite takes the other columns from the row with the maximum.
WITH RECURSIVE earlier (named, id) AS (
    SELECT named.value, named.value FROM json_each(:ids) AS named
    UNION
    SELECT earlier.named, jobs.rerun_of FROM earlier JOIN jobs ON jobs.id = earlier.id WHERE jobs.rerun_of IS NOT NULL
),
line (named, id) AS (
    SELECT named, id FROM earlier
    UNION
    SELECT line.named, jobs.id FROM line JOIN jobs ON jobs.rerun_of = line.id
)
SELECT line.named, line.id, max(jobs.sequence) FROM line JOIN jobs ON jobs.id = line.id GROUP BY line.named;

-- owners_by_id
SELECT jobs.id, owner, account FROM json_each(:ids) AS named CROSS JOIN jobs ON jobs.id = named.value;

-- last_sequence
-- The last sequence that is taken. An array takes the sequences of all its children when it is inserted.
SELECT own.sequence + own.array_size
FROM jobs AS newest JOIN jobs AS own ON own.sequence = coalesce(newest.parent_sequence, newest.sequence)
WHERE newest.sequence = (SELECT max(sequence) FROM jobs);

-- newest_created_at
SELECT created_at FROM jobs WHERE sequence = (SELECT max(sequence) FROM jobs);

-- active_jobs
SELECT jobs.sequence, id, version, status, state, spec
FROM jobs JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence)
WHERE status IN ('STARTING', 'RUNNING');

-- runnable_jobs
-- INDEXED BY, because SQLite may choose jobs_by_status, which has unschedulable and held jobs too.
SELECT id, sequence, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, account
FROM jobs INDEXED BY jobs_runnable
WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue AND sequence > :after ORDER BY sequence LIMIT :limit;

-- runnable_jobs_in_share
-- Two SELECTs, because (rank, sequence) > (:rank, :after) would read all jobs of this rank again for every page.
SELECT id, sequence, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, account
FROM jobs INDEXED BY jobs_runnable_in_share
WHERE status = 'RUNNABLE' AND passed_over = 0
    AND queue = :queue AND share_identifier = :share_identifier AND rank = :rank AND sequence > :after
UNION ALL
SELECT id, sequence, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, account
FROM jobs INDEXED BY jobs_runnable_in_share
WHERE status = 'RUNNABLE' AND passed_over = 0
    AND queue = :queue AND share_identifier = :share_identifier AND rank > :rank
ORDER BY rank, sequence LIMIT :limit;

-- runnable_jobs_excluding
-- The first jobs of each account that is not in :excluding. The jobs of excluded accounts are not read.
WITH RECURSIVE waiting (account) AS (
    SELECT min(account) FROM jobs INDEXED BY jobs_runnable_by_account
    WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue
    UNION ALL
    SELECT (
        SELECT min(jobs.account) FROM jobs INDEXED BY jobs_runnable_by_account
        WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue AND jobs.account > waiting.account
    )
    FROM waiting WHERE waiting.account IS NOT NULL
)
SELECT id, sequence, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, jobs.account
FROM waiting CROSS JOIN jobs ON jobs.sequence IN (
    SELECT own.sequence FROM jobs AS own INDEXED BY jobs_runnable_by_account
    WHERE own.status = 'RUNNABLE' AND own.passed_over = 0 AND own.queue = :queue AND own.account = waiting.account
        AND own.sequence > :after
    ORDER BY own.sequence LIMIT :limit
)
WHERE waiting.account IS NOT NULL AND waiting.account NOT IN (SELECT value FROM json_each(:excluding) AS named)
ORDER BY sequence LIMIT :limit;

-- runnable_jobs_in_share_excluding
WITH RECURSIVE waiting (account) AS (
    SELECT min(account) FROM jobs INDEXED BY jobs_runnable_in_share_by_account
    WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue AND share_identifier = :share_identifier
    UNION ALL
    SELECT (
        SELECT min(jobs.account) FROM jobs INDEXED BY jobs_runnable_in_share_by_account
        WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue AND share_identifier = :share_identifier
            AND jobs.account > waiting.account
    )
    FROM waiting WHERE waiting.account IS NOT NULL
)
SELECT id, sequence, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, jobs.account
FROM waiting CROSS JOIN jobs ON jobs.sequence IN (
    SELECT own.sequence FROM jobs AS own INDEXED BY jobs_runnable_in_share_by_account
    WHERE own.status = 'RUNNABLE' AND own.passed_over = 0 AND own.queue = :queue
        AND own.share_identifier = :share_identifier AND own.account = waiting.account
        AND (own.rank, own.sequence) > (:rank, :after)
    ORDER BY own.rank, own.sequence LIMIT :limit
)
WHERE waiting.account IS NOT NULL AND waiting.account NOT IN (SELECT value FROM json_each(:excluding) AS named)
ORDER BY rank, sequence LIMIT :limit;

-- shares_with_runnable_jobs
-- Seeks from one share to the next; the jobs between them are not read.
WITH RECURSIVE waiting (share_identifier) AS (
    SELECT min(share_identifier) FROM jobs INDEXED BY jobs_runnable_in_share
    WHERE status = 'RUNNABLE' AND passed_over = 0 AND share_identifier IS NOT NULL AND queue = :queue
    UNION ALL
    SELECT (
        SELECT min(jobs.share_identifier) FROM jobs INDEXED BY jobs_runnable_in_share
        WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue
            AND jobs.share_identifier > waiting.share_identifier
    )
    FROM waiting WHERE waiting.share_identifier IS NOT NULL
)
SELECT share_identifier FROM waiting WHERE share_identifier IS NOT NULL;

-- unschedulable_jobs
SELECT jobs.sequence, id, version, status, state, spec
FROM jobs JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence)
WHERE status = 'RUNNABLE' AND passed_over = 1 AND jobs.sequence > :after ORDER BY jobs.sequence LIMIT :limit;

-- dependents
-- At most a page of dependents of each job is read, however many jobs wait for it.
SELECT jobs.sequence, jobs.id, version, status, state, spec
FROM (
    SELECT DISTINCT job_dependencies.sequence FROM json_each(:ids) AS named CROSS JOIN job_dependencies
    ON job_dependencies.dependency_id = named.value AND job_dependencies.sequence IN (
        SELECT first.sequence FROM job_dependencies AS first
        WHERE first.dependency_id = named.value AND first.sequence > :after ORDER BY first.sequence LIMIT :limit
    )
    ORDER BY job_dependencies.sequence LIMIT :limit
) AS page CROSS JOIN jobs ON jobs.sequence = page.sequence
CROSS JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence);

-- finished_dependencies
-- Read once, when a server starts: dependents of these jobs may be due. An array may decide before it is finished.
SELECT jobs.id
FROM (SELECT DISTINCT dependency_id FROM job_dependencies AS waiting) AS named
CROSS JOIN jobs ON jobs.id = named.dependency_id
WHERE jobs.finished_at IS NOT NULL OR jobs.array_size > 0;

-- count_of_dependencies
SELECT count(*) FROM job_dependencies;

-- submission
SELECT job_id FROM submissions
WHERE principal = :principal AND invocation_id = :invocation_id AND body_sha256 = :body_sha256;

-- arrays_with_work
SELECT jobs.sequence, id, version, status, state, spec
FROM jobs JOIN job_specs ON job_specs.sequence = jobs.sequence
WHERE has_array_work = 1 ORDER BY jobs.sequence;

-- array
SELECT sequence, array_size FROM jobs WHERE id = :id;

-- unfinished_children
SELECT jobs.sequence, id, version, status, state, spec
FROM jobs JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence)
WHERE jobs.sequence BETWEEN :first AND :last AND status NOT IN ('SUCCEEDED', 'FAILED') ORDER BY jobs.sequence;

-- first_runnable_jobs
-- The first RUNNABLE job of each queue in :queues; NULL without one.
SELECT (
    SELECT min(sequence) FROM jobs INDEXED BY jobs_runnable
    WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = named.value
)
FROM json_each(:queues) AS named;

-- unfinished_counts
-- All unfinished jobs of each owner, without a status; then those that are not RUNNABLE. No index of RUNNABLE jobs is in
-- the order of owners, so that counting them would need a sort. From indexes alone, except for active jobs.
SELECT queue, account, owner, NULL, 0, count(*) FROM jobs INDEXED BY jobs_unfinished
WHERE finished_at IS NULL GROUP BY owner, account, queue
UNION ALL
SELECT queue, account, owner, status, 0, count(*) FROM jobs INDEXED BY jobs_active
WHERE status IN ('STARTING', 'RUNNING') GROUP BY queue, account, owner, status
UNION ALL
SELECT queue, account, owner, status, array_size > 0, count(*) FROM jobs INDEXED BY jobs_pending
WHERE status IN ('SUBMITTED', 'PENDING') GROUP BY queue, account, owner, status, array_size > 0;

-- queued_by_account
-- An array counts for the children that are not spawned yet, and not for itself.
SELECT account, sum(number) FROM (
    SELECT account, count(*) AS number FROM jobs INDEXED BY jobs_runnable_by_account
    WHERE status = 'RUNNABLE' AND passed_over = 0 GROUP BY queue, account
    UNION ALL
    SELECT account, count(*) FROM jobs INDEXED BY jobs_unschedulable
    WHERE status = 'RUNNABLE' AND passed_over = 1 GROUP BY account
    UNION ALL
    SELECT account, count(*) FROM jobs INDEXED BY jobs_held
    WHERE status = 'RUNNABLE' AND passed_over = 2 GROUP BY account
    UNION ALL
    SELECT account, sum(
        CASE WHEN array_size = 0 THEN 1
        ELSE array_size - (SELECT count(*) FROM jobs AS child WHERE child.parent_sequence = jobs.sequence) END
    )
    FROM jobs INDEXED BY jobs_pending WHERE status IN ('SUBMITTED', 'PENDING') GROUP BY account
)
GROUP BY account;

-- share_usage
SELECT queue, share_identifier, value FROM share_usage ORDER BY queue, share_identifier;

-- share_recount
-- Reads every job. Used only where the stored usage of a share is unreadable.
SELECT
    count(*) FILTER (WHERE parent_sequence IS NULL AND status NOT IN ('SUCCEEDED', 'FAILED')),
    coalesce(sum(millicpus) FILTER (WHERE status IN ('STARTING', 'RUNNING')), 0)
FROM jobs WHERE queue = :queue AND share_identifier = :share_identifier;

-- consumed_units
SELECT resource, units FROM consumed_units ORDER BY resource;

-- restoration
SELECT value FROM metadata WHERE name = 'restoration';

-- engine_id
SELECT value FROM metadata WHERE name = 'engine';

-- last_survey
SELECT value FROM metadata WHERE name = 'survey';

-- count_in_queue
-- Reads at most :limit rows of the index.
SELECT count(*), coalesce(sum(millicpus), 0) FROM (
    SELECT millicpus FROM jobs INDEXED BY jobs_runnable
    WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue AND sequence > :after AND sequence < :before
    ORDER BY sequence LIMIT :limit
) AS page;

-- count_in_share
SELECT count(*), coalesce(sum(millicpus), 0) FROM (
    SELECT millicpus FROM jobs INDEXED BY jobs_runnable_in_share
    WHERE status = 'RUNNABLE' AND passed_over = 0
        AND queue = :queue AND share_identifier = :share_identifier AND rank < :rank
    UNION ALL
    SELECT millicpus FROM jobs INDEXED BY jobs_runnable_in_share
    WHERE status = 'RUNNABLE' AND passed_over = 0
        AND queue = :queue AND share_identifier = :share_identifier AND rank = :rank AND sequence < :before
    LIMIT :limit
) AS page;

-- failures
-- The members of a damaged JSON are NULL.
SELECT
    definition, revision,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.status_reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].exit_code') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.stop_orders[#-1].kind') END
FROM jobs INDEXED BY jobs_failed
WHERE status = 'FAILED' AND parent_sequence IS NULL AND finished_at > :since
ORDER BY finished_at DESC, sequence DESC LIMIT :limit;

-- visible_failures
SELECT
    jobs.definition, jobs.revision,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.status_reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].exit_code') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.stop_orders[#-1].kind') END
FROM (
    SELECT sequence FROM (
        SELECT sequence, owner, account FROM jobs AS failed INDEXED BY jobs_failed
        WHERE status = 'FAILED' AND parent_sequence IS NULL AND finished_at > :since
        ORDER BY finished_at DESC, sequence DESC LIMIT :examined
    ) AS recent
    WHERE owner = :user OR account IN (SELECT value FROM json_each(:accounts) AS named)
    LIMIT :limit
) AS page CROSS JOIN jobs ON jobs.sequence = page.sequence;

-- failures_beyond
SELECT 1 FROM jobs INDEXED BY jobs_failed
WHERE status = 'FAILED' AND parent_sequence IS NULL AND finished_at > :since
ORDER BY finished_at DESC, sequence DESC LIMIT 1 OFFSET :examined;

-- first_of_queue
SELECT min(sequence) FROM jobs INDEXED BY jobs_runnable
WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue;

-- first_of_account
SELECT min(sequence) FROM jobs INDEXED BY jobs_runnable_by_account
WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue AND account = :account;

-- first_of_user
SELECT min(sequence) FROM jobs INDEXED BY jobs_by_owner
WHERE owner = :owner AND queue = :queue AND status = 'RUNNABLE' AND parent_sequence IS NULL;
