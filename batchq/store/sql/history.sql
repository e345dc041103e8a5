-- The history of all jobs, one numbered feed.

-- insert
INSERT INTO job_history (number, sequence, value) VALUES (:number, :sequence, :value);

-- sequences_of_jobs
SELECT jobs.id, jobs.sequence FROM json_each(:ids) AS named CROSS JOIN jobs ON jobs.id = named.value;

-- of_job
SELECT value FROM job_history WHERE sequence = (SELECT sequence FROM jobs WHERE id = :id) ORDER BY number;

-- ends
-- The highest number that is left, and the highest one that was deleted; NULL before the first of them.
SELECT (SELECT max(number) FROM job_history), (
    SELECT CAST(value AS INTEGER) FROM metadata WHERE name = 'forgotten_through'
);

-- end_of_scan
SELECT max(number) FROM (SELECT number FROM job_history WHERE number > :after ORDER BY number LIMIT :scan);

-- feed
-- Each filter that is NULL matches everything. A job filter matches the children of an array too.
SELECT
    number, jobs.id, job_history.value,
    coalesce(CASE WHEN json_valid(spec) THEN json_extract(spec, '$.name') END, jobs.name),
    queue, owner, account,
    CASE WHEN json_valid(spec) THEN json_extract(spec, '$.group.name') END,
    CASE WHEN json_valid(spec) THEN json_extract(spec, '$.group.id') END,
    CASE WHEN json_valid(spec) THEN json_extract(spec, '$.notify') END
FROM job_history
    CROSS JOIN jobs ON jobs.sequence = job_history.sequence
    LEFT JOIN job_specs ON job_specs.sequence = coalesce(jobs.parent_sequence, jobs.sequence)
WHERE number > :after AND number <= :through
    AND (:user IS NULL OR owner = :user OR account IN (SELECT value FROM json_each(:accounts) AS named))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues) AS named))
    AND (
        :groups IS NULL
        OR CASE WHEN json_valid(spec) THEN json_extract(spec, '$.group.id') END
        IN (SELECT value FROM json_each(:groups) AS named)
    )
    AND (
        :jobs IS NULL OR jobs.id IN (SELECT value FROM json_each(:jobs) AS named)
        OR parent_sequence IS NOT NULL
        AND substr(jobs.id, 1, instr(jobs.id, ':') - 1) IN (SELECT value FROM json_each(:jobs) AS named)
    )
    AND (
        :statuses IS NULL
        OR CASE
            WHEN
                json_valid(job_history.value)
                AND json_extract(job_history.value, '$.stop') IS NULL
                AND json_extract(job_history.value, '$.hold') IS NULL
                AND json_extract(job_history.value, '$.group_end') IS NULL
                THEN json_extract(job_history.value, '$.status')
        END IN (SELECT value FROM json_each(:statuses) AS named)
    )
ORDER BY number LIMIT :limit;

-- highest_of_job
SELECT max(number) FROM job_history WHERE sequence = :sequence;

-- delete_of_job
DELETE FROM job_history WHERE sequence = :sequence;

-- put_forgotten_through
INSERT INTO metadata (name, value) VALUES ('forgotten_through', CAST(:number AS TEXT))
ON CONFLICT DO UPDATE SET value = CAST(max(CAST(value AS INTEGER), :number) AS TEXT);
