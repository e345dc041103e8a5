-- Groups of jobs. In these statements {selected} stands for the conditions that groups.py has.

-- put_group
INSERT INTO job_groups (id, sequence, name, owner, account, ended_at, value)
VALUES (:id, :sequence, :name, :owner, :account, :ended_at, :value)
ON CONFLICT (id) DO UPDATE SET ended_at = :ended_at, value = :value;

-- groups_by_id
SELECT job_groups.value FROM json_each(:ids) AS named CROSS JOIN job_groups ON job_groups.id = named.value;

-- newest_groups
SELECT value FROM job_groups INDEXED BY job_groups_by_order
WHERE sequence < :before AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since)
    {selected}
ORDER BY sequence DESC LIMIT :limit;

-- newest_groups_with_name
SELECT value FROM job_groups INDEXED BY job_groups_by_name
WHERE name = :name AND sequence < :before AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since)
    {selected}
ORDER BY sequence DESC LIMIT :limit;

-- waiting_members
-- The jobs that wait for a place in their group alone: their dependencies have succeeded, and of a child of a SEQUENTIAL
-- array the child before it has. A dependency on a child has a row for its array too, which counts only if the job names
-- the array itself. The spec shows both: within a text value of the JSON the quotes would be escaped.
SELECT jobs.sequence, jobs.id, version, jobs.status, state, spec
FROM (
    SELECT own.sequence FROM jobs AS own INDEXED BY jobs_waiting_in_group
    WHERE own.group_id = :id AND own.status = 'PENDING' AND own.array_size = 0 AND own.passed_over = 0
        AND NOT EXISTS (
            SELECT 1 FROM job_dependencies
            LEFT JOIN jobs AS dependency ON dependency.id = job_dependencies.dependency_id
            WHERE job_dependencies.sequence = own.sequence AND dependency.status IS NOT 'SUCCEEDED'
                AND NOT (
                    ifnull(dependency.array_size, 0) > 0
                    AND EXISTS (
                        SELECT 1 FROM job_specs WHERE job_specs.sequence = own.sequence
                            AND instr(job_specs.spec, '"job_id":"' || dependency.id || '"') = 0
                    )
                )
        )
        AND NOT EXISTS (
            SELECT 1 FROM jobs AS before CROSS JOIN job_specs ON job_specs.sequence = own.parent_sequence
            WHERE before.sequence = own.sequence - 1 AND before.sequence > own.parent_sequence
                AND before.status <> 'SUCCEEDED' AND instr(job_specs.spec, '"job_id":null') > 0
        )
    ORDER BY own.sequence LIMIT :limit
) AS page
CROSS JOIN jobs ON jobs.sequence = page.sequence CROSS JOIN job_specs ON job_specs.sequence = coalesce(jobs.parent_sequence, jobs.sequence);

-- delete_empty_group
DELETE FROM job_groups WHERE id = :id AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.group_id = :id);
