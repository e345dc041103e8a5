-- Reads of a whole database, page by page.

-- jobs_by_page
SELECT jobs.sequence, state, spec, status,
    id, jobs.sequence, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, account
FROM jobs LEFT JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence)
WHERE jobs.sequence > :after ORDER BY jobs.sequence LIMIT :limit;

-- history_by_page
SELECT job_history.sequence, id, value FROM job_history JOIN jobs USING (sequence)
WHERE job_history.sequence > :after AND job_history.sequence <= :last ORDER BY job_history.sequence, number;

-- streams_by_page
SELECT number, name, value FROM log_streams WHERE number > :after ORDER BY number LIMIT :limit;

-- count_by_status
SELECT status, count(*) FROM jobs GROUP BY status;

-- broken_references
SELECT "table", rowid, parent FROM pragma_foreign_key_check;

-- instance
SELECT value FROM metadata WHERE name = 'instance';
