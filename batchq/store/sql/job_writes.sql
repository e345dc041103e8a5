-- Writes of one unit of work. Each UPDATE of a job expects the version that was read.

-- insert_job
INSERT INTO jobs (
    sequence, id, version, queue, status, passed_over, has_array_work, created_at, owner, account, name, definition,
    revision, share_identifier, rank, millicpus, memory_mib, gpus, node_runs, engines, timeout, parent_sequence, array_size,
    consumable_requirements, rerun_of, group_id, state
)
VALUES (
    :sequence, :id, :version, :queue, :status, :passed_over, :has_array_work, :created_at, :owner, :account, :name,
    :definition, :revision, :share_identifier, :rank, :millicpus, :memory_mib, :gpus, :node_runs, :engines, :timeout,
    :parent_sequence, :array_size, :consumable_requirements, :rerun_of, :group_id, :state
);

-- insert_spec
INSERT INTO job_specs (sequence, spec) VALUES (:sequence, :spec);

-- insert_consumable_resource
INSERT OR IGNORE INTO job_consumable_resources (resource, sequence) VALUES (:resource, :sequence);

-- insert_dependency
INSERT OR IGNORE INTO job_dependencies (dependency_id, sequence) VALUES (:dependency_id, :sequence);

-- delete_dependency
DELETE FROM job_dependencies WHERE dependency_id = :dependency_id AND sequence = :sequence;

-- update_state
-- For a job whose searched columns do not change: SQLite rewrites an index for each of its columns that is SET.
UPDATE jobs SET version = :version + 1, state = :state
WHERE sequence = :sequence AND id = :id AND version = :version
    AND status = :status AND passed_over = :passed_over AND has_array_work = :has_array_work;

-- update_job
UPDATE jobs
SET version = :version + 1, status = :status, passed_over = :passed_over, has_array_work = :has_array_work,
    state = :state
WHERE sequence = :sequence AND id = :id AND version = :version;

-- finish_job
-- Apart from update_job, because it also writes the indexes on finished_at.
UPDATE jobs
SET version = :version + 1, status = :status, passed_over = :passed_over, has_array_work = :has_array_work,
    state = :state, finished_at = :finished_at
WHERE sequence = :sequence AND id = :id AND version = :version;

-- version
SELECT version FROM jobs WHERE id = :id;

-- set_finished_at
UPDATE jobs SET finished_at = :at WHERE id = :id;

-- insert_submission
-- Replaces a row with the same key that has expired, or whose job was deleted.
INSERT INTO submissions (principal, invocation_id, body_sha256, job_id, at)
VALUES (:principal, :invocation_id, :body_sha256, :job_id, :at)
ON CONFLICT DO UPDATE SET job_id = excluded.job_id, at = excluded.at
WHERE at < :before OR NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = submissions.job_id);

-- delete_submissions
DELETE FROM submissions WHERE (principal, invocation_id, body_sha256) IN (
    SELECT principal, invocation_id, body_sha256 FROM submissions WHERE at < :before ORDER BY at LIMIT :limit
);

-- put_share_usage
INSERT INTO share_usage (queue, share_identifier, value) VALUES (:queue, :share_identifier, :value)
ON CONFLICT (queue, share_identifier) DO UPDATE SET value = :value;

-- put_consumed_units
INSERT INTO consumed_units (resource, units) VALUES (:resource, :units)
ON CONFLICT (resource) DO UPDATE SET units = :units;

-- put_engine_id
INSERT OR REPLACE INTO metadata (name, value) VALUES ('engine', :value);

-- put_survey
INSERT OR REPLACE INTO metadata (name, value) VALUES ('survey', :value);

-- put_restoration
INSERT OR REPLACE INTO metadata (name, value) VALUES ('restoration', :value);
