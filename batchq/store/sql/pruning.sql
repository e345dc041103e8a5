-- finished
-- Oldest first. The children of arrays go with them.
SELECT finished_at, ord, id, array_size FROM jobs INDEXED BY jobs_finished
WHERE finished_at IS NOT NULL AND parent_ord IS NULL AND finished_at < :before
    AND finished_at >= :at AND (finished_at > :at OR ord > :ord)
ORDER BY finished_at, ord LIMIT :limit;

-- rows
SELECT ord, state, (SELECT spec FROM specs WHERE specs.ord = coalesce(parent_ord, jobs.ord)) FROM jobs
WHERE ord BETWEEN :first AND :last ORDER BY ord LIMIT :limit;

-- waited_for
-- `:id` or one of its children: a colon stands before their number, and a semicolon is the next letter.
SELECT 1 FROM waits WHERE on_id = :id OR (on_id > :id || ':' AND on_id < :id || ';') LIMIT 1;

-- newest
SELECT coalesce(parent_ord, ord) FROM jobs WHERE ord = (SELECT max(ord) FROM jobs);

-- drop_history
DELETE FROM history WHERE ord = :ord;

-- drop_waits
DELETE FROM waits WHERE ord = :ord;

-- drop_needs
DELETE FROM job_needs WHERE ord = :ord;

-- drop_aside
DELETE FROM quarantine WHERE ord = :ord;

-- drop_spec
DELETE FROM specs WHERE ord = :ord;

-- drop_job
DELETE FROM jobs WHERE ord = :ord;

-- drop_stream
DELETE FROM streams WHERE name = :name;

-- discard
INSERT OR IGNORE INTO discarded (log_id) VALUES (:log_id);

-- discarded
SELECT log_id FROM discarded LIMIT :limit;

-- forget_discarded
DELETE FROM discarded WHERE log_id = :log_id;

-- shares
SELECT queue, share, value FROM shares WHERE (queue, share) > (:queue, :share) ORDER BY queue, share LIMIT :limit;

-- drop_share
DELETE FROM shares WHERE queue = :queue AND share = :share;
