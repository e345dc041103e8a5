-- Statements of the job search with a constant text. The walks are built in Python.

-- whole_jobs_with_prefix
-- Seeks from one job to the next: a semicolon follows the colon of the ids of children in the order of characters.
WITH RECURSIVE walk (id) AS (
    SELECT min(first.id) FROM jobs AS first WHERE first.id >= :prefix AND first.id < :beyond
    UNION ALL
    SELECT (SELECT min(jobs.id) FROM jobs WHERE jobs.id > walk.id || ';' AND jobs.id < :beyond)
    FROM walk WHERE walk.id IS NOT NULL
)
SELECT id FROM walk WHERE id IS NOT NULL LIMIT 1000

-- queues
-- Seeks from one queue to the next.
WITH RECURSIVE walk (queue) AS (
    SELECT min(queue) FROM jobs INDEXED BY jobs_by_queue WHERE parent_sequence IS NULL
    UNION ALL
    SELECT (
        SELECT min(jobs.queue) FROM jobs INDEXED BY jobs_by_queue
        WHERE jobs.parent_sequence IS NULL AND jobs.queue > walk.queue
    )
    FROM walk WHERE walk.queue IS NOT NULL
)
SELECT queue FROM walk WHERE queue IS NOT NULL LIMIT :limit;

-- queues_of_owner
WITH RECURSIVE walk (queue) AS (
    SELECT min(queue) FROM jobs INDEXED BY jobs_by_owner WHERE owner = :value AND parent_sequence IS NULL
    UNION ALL
    SELECT (
        SELECT min(jobs.queue) FROM jobs INDEXED BY jobs_by_owner
        WHERE jobs.owner = :value AND jobs.parent_sequence IS NULL AND jobs.queue > walk.queue
    )
    FROM walk WHERE walk.queue IS NOT NULL
)
SELECT queue FROM walk WHERE queue IS NOT NULL LIMIT :limit;

-- queues_of_account
WITH RECURSIVE walk (queue) AS (
    SELECT min(queue) FROM jobs INDEXED BY jobs_by_account WHERE account = :value AND parent_sequence IS NULL
    UNION ALL
    SELECT (
        SELECT min(jobs.queue) FROM jobs INDEXED BY jobs_by_account
        WHERE jobs.account = :value AND jobs.parent_sequence IS NULL AND jobs.queue > walk.queue
    )
    FROM walk WHERE walk.queue IS NOT NULL
)
SELECT queue FROM walk WHERE queue IS NOT NULL LIMIT :limit;

-- finished_of_owner
SELECT count(*), json_group_array(sequence) FILTER (WHERE status IN ('SUCCEEDED', 'FAILED'))
FROM (
    SELECT sequence, status FROM jobs INDEXED BY jobs_by_owner WHERE owner = :value AND parent_sequence IS NULL LIMIT :limit
) AS page;

-- finished_of_account
SELECT count(*), json_group_array(sequence) FILTER (WHERE status IN ('SUCCEEDED', 'FAILED'))
FROM (
    SELECT sequence, status FROM jobs INDEXED BY jobs_by_account WHERE account = :value AND parent_sequence IS NULL LIMIT :limit
) AS page;

-- creation
-- The first job from :sequence on: its order, the order of its array or its own, and when that was created.
SELECT page.sequence, jobs.sequence, jobs.created_at
FROM (SELECT sequence, coalesce(parent_sequence, sequence) AS root FROM jobs WHERE sequence >= :sequence ORDER BY sequence LIMIT 1) AS page
CROSS JOIN jobs ON jobs.sequence = page.root;
