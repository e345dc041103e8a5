-- insert_sweep
INSERT OR REPLACE INTO sweeps (number, value) VALUES (:number, :value);

-- add_candidates
INSERT OR IGNORE INTO sweep_jobs (sweep, ord, node)
SELECT :sweep, json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:places) AS named;

-- sweeps
SELECT number, value FROM sweeps ORDER BY number;

-- meant_orders
SELECT ord, ord + array_size FROM sweep_jobs CROSS JOIN jobs USING (ord) WHERE sweep = :sweep ORDER BY ord;

-- next_meant
SELECT node, jobs.ord, id, version, status, state, spec
FROM sweep_jobs CROSS JOIN jobs ON jobs.ord = sweep_jobs.ord
CROSS JOIN specs ON specs.ord = coalesce(parent_ord, jobs.ord)
WHERE sweep = :sweep ORDER BY sweep_jobs.ord DESC, node DESC LIMIT :limit;

-- told
DELETE FROM sweep_jobs WHERE sweep = :sweep AND (ord, node) >= (:ord, :node);

-- drop_sweep
DELETE FROM sweeps WHERE number = :sweep;

-- preview
-- What is chosen, and how it is known that an array has children, stand elsewhere. Of all that is chosen only the page
-- is looked up.
SELECT jobs.ord, page.node, jobs.id,
    CASE WHEN json_valid(spec) THEN json_extract(spec, '$.name') END, jobs.status, coalesce({has_children}, FALSE)
FROM (
    SELECT DISTINCT ord, node FROM ({chosen}) WHERE (ord, node) > (?, ?) ORDER BY ord, node LIMIT ?
) AS page
CROSS JOIN jobs ON jobs.ord = page.ord CROSS JOIN specs ON specs.ord = coalesce(jobs.parent_ord, jobs.ord)
ORDER BY page.ord, page.node;
