-- Repair of jobs with unreadable rows.

-- columns
-- Text columns as BLOBs, so that invalid UTF-8 is quarantined byte by byte.
SELECT
    sequence, id, version, queue, status, created_at, owner, account, name, definition, revision, share_identifier, rank,
    millicpus, memory_mib, gpus, parent_sequence, array_size, group_id, CAST(node_runs AS BLOB) AS node_runs,
    CAST(consumable_requirements AS BLOB) AS consumable_requirements, CAST(state AS BLOB) AS state,
    (SELECT CAST(spec AS BLOB) FROM job_specs WHERE job_specs.sequence = coalesce(parent_sequence, jobs.sequence)) AS spec
FROM jobs WHERE sequence = :sequence;

-- insert_quarantine
INSERT INTO quarantine (sequence, column_name, raw) VALUES (:sequence, :column_name, :raw);

-- update_spec
UPDATE job_specs SET spec = :spec WHERE sequence = :sequence;

-- update_state
UPDATE jobs
SET status = :status, passed_over = :passed_over, has_array_work = :has_array_work, state = :state
WHERE sequence = :sequence;

-- clear_consumable_requirements
UPDATE jobs SET consumable_requirements = NULL WHERE sequence = :sequence;

-- write_node_runs
UPDATE jobs SET node_runs = :node_runs WHERE sequence = :sequence;

-- group
SELECT value FROM job_groups WHERE id = :id;

-- statuses_of_children
SELECT status FROM jobs WHERE sequence BETWEEN :first AND :last ORDER BY sequence;

-- unfinished_quarantined_jobs
SELECT id FROM jobs WHERE sequence IN (SELECT sequence FROM quarantine) AND status NOT IN ('SUCCEEDED', 'FAILED');

-- count
SELECT count(*) FROM quarantine;
