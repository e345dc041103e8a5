-- Reads of a whole database, page by page.

-- jobs_by_page
SELECT jobs.ord, state, spec, status,
    id, jobs.ord, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, account
FROM jobs LEFT JOIN job_specs ON job_specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord > :after ORDER BY jobs.ord LIMIT :limit;

-- history_by_page
SELECT job_history.ord, id, value FROM job_history JOIN jobs USING (ord)
WHERE job_history.ord > :after AND job_history.ord <= :last ORDER BY job_history.ord, number;

-- streams_by_page
SELECT number, name, value FROM log_streams WHERE number > :after ORDER BY number LIMIT :limit;

-- count_by_status
SELECT status, count(*) FROM jobs GROUP BY status;

-- broken_references
SELECT "table", rowid, parent FROM pragma_foreign_key_check;

-- instance
SELECT value FROM metadata WHERE name = 'instance';
