-- Lists of jobs with a constant statement. Statements with filters are built in Python.

-- children
SELECT jobs.ord, id, version, status, state, spec
FROM jobs JOIN job_specs ON job_specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord BETWEEN :first AND :last ORDER BY jobs.ord DESC LIMIT :limit;

-- children_with_status
SELECT jobs.ord, id, version, status, state, spec
FROM jobs JOIN job_specs ON job_specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord BETWEEN :first AND :last AND status = :status ORDER BY jobs.ord DESC LIMIT :limit;

-- children_failed_or_queued
SELECT jobs.ord, id, version, status, state, spec
FROM jobs JOIN job_specs ON job_specs.ord = coalesce(parent_ord, jobs.ord)
WHERE jobs.ord BETWEEN :first AND :last AND status IN ('FAILED', 'SUBMITTED', 'PENDING', 'RUNNABLE')
ORDER BY jobs.ord DESC LIMIT :limit;

-- count_unfinished_in_queue
SELECT count(*) FROM jobs
WHERE queue = :queue AND parent_ord IS NULL AND status IN ('SUBMITTED', 'PENDING', 'RUNNABLE', 'STARTING', 'RUNNING');
