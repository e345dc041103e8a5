-- columns
-- As blobs: what is no text any more is kept as it is.
SELECT
    ord, id, version, status, queue, name, definition, revision, share, created_at, millicpus, memory_mib, gpus,
    owner, account, parent_ord, array_size, rank, CAST(needs AS BLOB) AS needs, CAST(state AS BLOB) AS state,
    (SELECT CAST(spec AS BLOB) FROM specs WHERE specs.ord = coalesce(parent_ord, jobs.ord)) AS spec
FROM jobs WHERE ord = :ord;

-- keep
INSERT INTO quarantine (ord, part, raw) VALUES (:ord, :part, :raw);

-- rewrite_spec
UPDATE specs SET spec = :spec WHERE ord = :ord;

-- rewrite_state
UPDATE jobs SET status = :status, misfit = :misfit, at_work = :at_work, state = :state WHERE ord = :ord;

-- forget_needs
UPDATE jobs SET needs = NULL WHERE ord = :ord;

-- statuses_of_children
SELECT status FROM jobs WHERE ord BETWEEN :first AND :last ORDER BY ord;

-- unfinished
SELECT id FROM jobs WHERE ord IN (SELECT ord FROM quarantine) AND status NOT IN ('SUCCEEDED', 'FAILED');

-- count
SELECT count(*) FROM quarantine;
