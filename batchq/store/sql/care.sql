-- jobs_by_page
SELECT jobs.ord, state, spec, status, id, jobs.ord, millicpus, memory_mib, gpus, needs, longest, share, rank, account
FROM jobs LEFT JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord > :after ORDER BY jobs.ord LIMIT :limit;

-- history_by_page
SELECT history.ord, id, value FROM history JOIN jobs USING (ord)
WHERE history.ord > :after AND history.ord <= :last ORDER BY history.ord, number;

-- streams_by_page
SELECT number, name, value FROM streams WHERE number > :after ORDER BY number LIMIT :limit;

-- jobs_by_status
SELECT status, count(*) FROM jobs GROUP BY status;

-- broken_references
SELECT "table", rowid, parent FROM pragma_foreign_key_check;

-- instance
SELECT value FROM meta WHERE name = 'instance';
