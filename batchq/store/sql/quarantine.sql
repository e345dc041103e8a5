-- Repair of jobs with unreadable rows.

-- columns
-- Text columns as BLOBs, so that invalid UTF-8 is quarantined byte by byte.
SELECT
    ord, id, version, queue, status, created_at, owner, account, name, definition, revision, share_identifier, rank,
    millicpus, memory_mib, gpus, parent_ord, array_size, CAST(node_runs AS BLOB) AS node_runs,
    CAST(consumable_requirements AS BLOB) AS consumable_requirements, CAST(state AS BLOB) AS state,
    (SELECT CAST(spec AS BLOB) FROM job_specs WHERE job_specs.ord = coalesce(parent_ord, jobs.ord)) AS spec
FROM jobs WHERE ord = :ord;

-- insert_quarantine
INSERT INTO quarantine (ord, column_name, raw) VALUES (:ord, :column_name, :raw);

-- update_spec
UPDATE job_specs SET spec = :spec WHERE ord = :ord;

-- update_state
UPDATE jobs
SET status = :status, passed_over = :passed_over, has_array_work = :has_array_work, state = :state
WHERE ord = :ord;

-- clear_consumable_requirements
UPDATE jobs SET consumable_requirements = NULL WHERE ord = :ord;

-- write_node_runs
UPDATE jobs SET node_runs = :node_runs WHERE ord = :ord;

-- statuses_of_children
SELECT status FROM jobs WHERE ord BETWEEN :first AND :last ORDER BY ord;

-- unfinished_quarantined_jobs
SELECT id FROM jobs WHERE ord IN (SELECT ord FROM quarantine) AND status NOT IN ('SUCCEEDED', 'FAILED');

-- count
SELECT count(*) FROM quarantine;
