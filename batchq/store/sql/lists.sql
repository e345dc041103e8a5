-- Lists of jobs with a constant statement. Statements with filters are built in Python.

-- statuses_of_children
-- As one value: 10,000 rows cost three times as much.
SELECT min(sequence), max(sequence), json_group_array(status)
FROM (SELECT sequence, status FROM jobs WHERE sequence BETWEEN :first AND :last ORDER BY sequence) AS listed;

-- count_unfinished_in_queue
SELECT count(*) FROM jobs
WHERE queue = :queue AND parent_sequence IS NULL AND status IN ('SUBMITTED', 'PENDING', 'RUNNABLE', 'STARTING', 'RUNNING');

-- insert_stream
INSERT INTO log_streams (name, created_at, owner, account, value) VALUES (:name, :created_at, :owner, :account, :value)
ON CONFLICT (name) DO NOTHING;

-- stream
SELECT name, value FROM log_streams WHERE name = :name;

-- streams_by_name
SELECT name, value FROM log_streams WHERE name >= :start AND name > :after AND name < :beyond ORDER BY name;

-- streams_by_name_of_owner
SELECT name, value FROM log_streams INDEXED BY log_streams_by_owner
WHERE owner = :owner AND name >= :start AND name > :after AND name < :beyond ORDER BY name;

-- streams_by_name_of_account
SELECT name, value FROM log_streams INDEXED BY log_streams_by_account
WHERE account = :account AND name >= :start AND name > :after AND name < :beyond ORDER BY name;

-- newest_streams
SELECT name, value FROM log_streams WHERE (created_at, name) < (:at, :name) ORDER BY created_at DESC, name DESC;

-- newest_streams_of_owner
SELECT name, value, created_at FROM log_streams INDEXED BY log_streams_by_owner_and_age
WHERE owner = :owner AND (created_at, name) < (:at, :name) ORDER BY created_at DESC, name DESC;

-- newest_streams_of_account
SELECT name, value, created_at FROM log_streams INDEXED BY log_streams_by_account_and_age
WHERE account = :account AND (created_at, name) < (:at, :name) ORDER BY created_at DESC, name DESC;
