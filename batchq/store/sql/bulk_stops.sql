-- Bulk stops, and the jobs that each of them has yet to stop.

-- insert_bulk_stop
INSERT OR REPLACE INTO bulk_stops (number, value) VALUES (:number, :value);

-- insert_targets
INSERT OR IGNORE INTO bulk_stop_targets (bulk_stop, sequence, node)
SELECT :bulk_stop, json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:places) AS named;

-- bulk_stops
SELECT number, value FROM bulk_stops ORDER BY number;

-- target_ranges
-- The sequences of each target, for an array those of its children too.
SELECT sequence, sequence + array_size FROM bulk_stop_targets CROSS JOIN jobs USING (sequence)
WHERE bulk_stop = :bulk_stop ORDER BY sequence;

-- next_targets
SELECT node, jobs.sequence, id, version, status, state, spec
FROM bulk_stop_targets CROSS JOIN jobs ON jobs.sequence = bulk_stop_targets.sequence
CROSS JOIN job_specs ON job_specs.sequence = coalesce(parent_sequence, jobs.sequence)
WHERE bulk_stop = :bulk_stop ORDER BY bulk_stop_targets.sequence DESC, node DESC LIMIT :limit;

-- delete_targets
DELETE FROM bulk_stop_targets WHERE bulk_stop = :bulk_stop AND (sequence, node) >= (:sequence, :node);

-- delete_bulk_stop
DELETE FROM bulk_stops WHERE number = :bulk_stop;

-- preview
-- The selection and the test for children are filled in by Python. Only the rows of the page are joined.
SELECT jobs.sequence, page.node, jobs.id,
    CASE WHEN json_valid(spec) THEN json_extract(spec, '$.name') END, jobs.status, coalesce({has_children}, FALSE),
    {children}, {stop_orders}
FROM (
    SELECT DISTINCT sequence, node FROM ({chosen}) WHERE (sequence, node) > (?, ?) ORDER BY sequence, node LIMIT ?
) AS page
CROSS JOIN jobs ON jobs.sequence = page.sequence CROSS JOIN job_specs ON job_specs.sequence = coalesce(jobs.parent_sequence, jobs.sequence)
ORDER BY page.sequence, page.node;
