-- Buckets of activity. In these statements {columns}, {values}, {sums}, {added} and {placed} are lists of the columns of
-- activity_buckets behind its key.

-- through
SELECT CAST(value AS INTEGER) FROM metadata WHERE name = 'activity_through';

-- put_through
INSERT OR REPLACE INTO metadata (name, value) VALUES ('activity_through', CAST(:number AS TEXT));

-- events
-- Jobs that ended and attempts that began. The wait of an attempt is the time since the job last became RUNNABLE.
WITH entries AS (
    SELECT number, sequence, json_extract(value, '$.status') AS status, julianday(json_extract(value, '$.at')) AS day
    FROM job_history
    WHERE number > :after AND number <= :through AND json_valid(value)
        AND json_extract(value, '$.status') IN ('STARTING', 'SUCCEEDED', 'FAILED')
        AND json_extract(value, '$.stop') IS NULL
        AND json_extract(value, '$.hold') IS NULL
        AND json_extract(value, '$.group_end') IS NULL
),
found AS (
    SELECT
        queue, account, owner,
        CAST(round((day - 2440587.5) * 86400) AS INTEGER) / :width * :width AS began_at,
        CASE
            WHEN entries.status = 'STARTING' THEN NULL
            WHEN entries.status = 'FAILED' AND json_valid(state)
                AND json_extract(state, '$.stop_orders[#-1].kind') IN ('CANCEL', 'TERMINATE') THEN 'STOPPED'
            ELSE entries.status
        END AS outcome,
        CASE entries.status WHEN 'STARTING' THEN coalesce((day - (
            SELECT julianday(json_extract(earlier.value, '$.at')) FROM job_history AS earlier
            WHERE earlier.sequence = entries.sequence AND earlier.number < entries.number AND json_valid(earlier.value)
                AND json_extract(earlier.value, '$.status') = 'RUNNABLE'
                AND json_extract(earlier.value, '$.stop') IS NULL
                AND json_extract(earlier.value, '$.hold') IS NULL
            ORDER BY earlier.number DESC LIMIT 1
        )) * 86400, 0) END AS waited
    FROM entries CROSS JOIN jobs ON jobs.sequence = entries.sequence
    WHERE array_size = 0 AND day IS NOT NULL
)
SELECT queue, account, owner, began_at, outcome, CASE WHEN outcome IS NULL THEN {range} END AS wait, count(*)
FROM found GROUP BY queue, account, owner, began_at, outcome, wait;

-- add_samples
INSERT INTO activity_samples (width, began_at, samples, machine_samples, millicpus, memory_mib, gpus)
VALUES (:width, :began_at, :samples, :machine_samples, :millicpus, :memory_mib, :gpus)
ON CONFLICT (width, began_at) DO UPDATE SET
samples = samples + excluded.samples, machine_samples = machine_samples + excluded.machine_samples,
millicpus = millicpus + excluded.millicpus, memory_mib = memory_mib + excluded.memory_mib,
gpus = gpus + excluded.gpus;

-- add_capacity
INSERT INTO capacity_buckets (width, began_at, environment, samples, limit_millicpus, {placed})
VALUES (:width, :began_at, :environment, 1, :limit_millicpus, {placed_values})
ON CONFLICT (width, began_at, environment) DO UPDATE SET
samples = samples + excluded.samples, limit_millicpus = limit_millicpus + excluded.limit_millicpus, {placed_added};

-- keys
SELECT queue, account, owner FROM activity_buckets WHERE width = :width AND began_at = :began_at;

-- add
INSERT INTO activity_buckets (width, began_at, queue, account, owner, {columns})
VALUES (:width, :began_at, :queue, :account, :owner, {values})
ON CONFLICT (width, began_at, queue, account, owner) DO UPDATE SET {added};

-- outdated
-- Buckets that are too old, and those after the present: a server counted them before the clock was set back.
SELECT began_at FROM activity_samples WHERE width = :width AND began_at < :before
UNION ALL SELECT began_at FROM activity_samples WHERE width = :width AND began_at > :now LIMIT :limit;

-- delete_samples
DELETE FROM activity_samples WHERE width = :width AND began_at = :began_at;

-- delete_capacity
DELETE FROM capacity_buckets WHERE width = :width AND began_at = :began_at;

-- delete_activity
DELETE FROM activity_buckets WHERE width = :width AND began_at = :began_at;

-- samples
SELECT began_at, samples, machine_samples, millicpus, memory_mib, gpus FROM activity_samples
WHERE width = :width AND began_at BETWEEN :first AND :last ORDER BY began_at;

-- capacity
SELECT began_at, total(limit_millicpus * 1.0 / samples) FROM capacity_buckets
WHERE width = :width AND began_at BETWEEN :first AND :last
    AND environment IN (SELECT value FROM json_each(:environments) AS named)
GROUP BY began_at;

-- environments
SELECT environment, began_at, samples, limit_millicpus, {placed} FROM capacity_buckets
WHERE width = :width AND began_at BETWEEN :first AND :last
    AND environment IN (SELECT value FROM json_each(:environments) AS named)
ORDER BY began_at;

-- activity
SELECT began_at, {sums} FROM activity_buckets
WHERE width = :width AND began_at BETWEEN :first AND :last
    AND queue IN (SELECT value FROM json_each(:queues) AS named)
    AND (:user IS NULL OR owner = :user OR account IN (SELECT value FROM json_each(:accounts) AS named))
GROUP BY began_at;
