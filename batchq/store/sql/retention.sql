-- Deletion of finished jobs, of their logs, and of share usage that has decayed.

-- finished_jobs
-- Oldest first. Children are deleted with their array.
SELECT finished_at, sequence, id, array_size FROM jobs INDEXED BY jobs_finished
WHERE finished_at IS NOT NULL AND parent_sequence IS NULL AND finished_at < :before
    AND finished_at >= :at AND (finished_at > :at OR sequence > :sequence)
ORDER BY finished_at, sequence LIMIT :limit;

-- rows_of_sequences
SELECT sequence, state, (SELECT spec FROM job_specs WHERE job_specs.sequence = coalesce(parent_sequence, jobs.sequence)), group_id
FROM jobs
WHERE sequence BETWEEN :first AND :last ORDER BY sequence LIMIT :limit;

-- is_dependency
-- Of :id or of one of its children: a child has the id :id, a colon and a number, and a semicolon follows the colon in
-- the order of characters.
SELECT 1 FROM job_dependencies
WHERE dependency_id = :id OR (dependency_id > :id || ':' AND dependency_id < :id || ';') LIMIT 1;

-- newest_job
SELECT coalesce(parent_sequence, sequence) FROM jobs WHERE sequence = (SELECT max(sequence) FROM jobs);

-- delete_dependencies
DELETE FROM job_dependencies WHERE sequence = :sequence;

-- delete_consumable_resources
DELETE FROM job_consumable_resources WHERE sequence = :sequence;

-- delete_quarantine
DELETE FROM quarantine WHERE sequence = :sequence;

-- delete_spec
DELETE FROM job_specs WHERE sequence = :sequence;

-- delete_job
DELETE FROM jobs WHERE sequence = :sequence;

-- delete_submissions_of_deleted_jobs
DELETE FROM submissions WHERE (principal, invocation_id, body_sha256) IN (
    SELECT principal, invocation_id, body_sha256 FROM submissions
    WHERE at < :before AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = submissions.job_id)
    ORDER BY at LIMIT :limit
);

-- delete_stream
DELETE FROM log_streams WHERE name = :name;

-- insert_discarded_log
INSERT OR IGNORE INTO discarded_logs (log_id) VALUES (:log_id);

-- discarded_logs
SELECT log_id FROM discarded_logs WHERE log_id > :after ORDER BY log_id LIMIT :limit;

-- delete_discarded_log
DELETE FROM discarded_logs WHERE log_id = :log_id;

-- share_usage_by_page
SELECT queue, share_identifier, value FROM share_usage
WHERE (queue, share_identifier) > (:queue, :share_identifier) ORDER BY queue, share_identifier LIMIT :limit;

-- delete_share_usage
DELETE FROM share_usage WHERE queue = :queue AND share_identifier = :share_identifier;
