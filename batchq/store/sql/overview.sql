-- Bounded reads for the overview.

-- failures
-- The members of a damaged JSON are NULL.
SELECT
    definition, revision,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.status_reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].exit_code') END
FROM jobs INDEXED BY jobs_failed
WHERE status = 'FAILED' AND parent_ord IS NULL AND finished_at > :since
ORDER BY finished_at DESC, ord DESC LIMIT :limit;

-- visible_failures
SELECT
    jobs.definition, jobs.revision,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.status_reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].reason') END,
    CASE WHEN json_valid(state) THEN json_extract(state, '$.attempts[#-1].exit_code') END
FROM (
    SELECT ord FROM (
        SELECT ord, owner, account FROM jobs AS failed INDEXED BY jobs_failed
        WHERE status = 'FAILED' AND parent_ord IS NULL AND finished_at > :since
        ORDER BY finished_at DESC, ord DESC LIMIT :examined
    ) AS recent
    WHERE owner = :user OR account IN (SELECT value FROM json_each(:accounts) AS named)
    LIMIT :limit
) AS page CROSS JOIN jobs ON jobs.ord = page.ord;

-- failures_beyond
SELECT 1 FROM jobs INDEXED BY jobs_failed
WHERE status = 'FAILED' AND parent_ord IS NULL AND finished_at > :since
ORDER BY finished_at DESC, ord DESC LIMIT 1 OFFSET :examined;

-- first_of_queue
SELECT min(ord) FROM jobs INDEXED BY jobs_runnable
WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue;

-- first_of_account
SELECT min(ord) FROM jobs INDEXED BY jobs_runnable_by_account
WHERE status = 'RUNNABLE' AND passed_over = 0 AND queue = :queue AND account = :account;

-- first_of_user
SELECT min(ord) FROM jobs INDEXED BY jobs_by_owner
WHERE owner = :owner AND queue = :queue AND status = 'RUNNABLE' AND parent_ord IS NULL;
