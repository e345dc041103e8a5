-- environments
SELECT value FROM environments ORDER BY name;

-- put_environment
INSERT INTO environments (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value;

-- drop_environment
DELETE FROM environments WHERE name = :name;

-- queues
SELECT value FROM queues ORDER BY name;

-- put_queue
INSERT INTO queues (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value;

-- drop_queue
DELETE FROM queues WHERE name = :name;

-- last_revision
SELECT max(revision) FROM definitions WHERE name = :name;

-- insert_definition
INSERT INTO definitions (name, revision, status, value) VALUES (:name, :revision, :status, :value);

-- update_definition
UPDATE definitions SET status = :status, value = :value WHERE name = :name AND revision = :revision;

-- definition
SELECT value FROM definitions WHERE name = :name AND revision = :revision;

-- newest_active
SELECT value FROM definitions WHERE status = 'ACTIVE' AND name = :name ORDER BY revision DESC LIMIT 1;

-- definitions
SELECT value FROM definitions
WHERE (name, revision) > (:after_name, :after_revision) ORDER BY name, revision LIMIT :limit;

-- definitions_of_status
SELECT value FROM definitions
WHERE status = :status AND (name, revision) > (:after_name, :after_revision) ORDER BY name, revision LIMIT :limit;

-- revisions
SELECT value FROM definitions WHERE name = :name AND revision > :after_revision ORDER BY revision LIMIT :limit;

-- revisions_of_status
SELECT value FROM definitions
WHERE status = :status AND name = :name AND revision > :after_revision ORDER BY revision LIMIT :limit;

-- flag
SELECT value FROM meta WHERE name = :name;

-- set_flag
INSERT OR REPLACE INTO meta (name, value) VALUES (:name, :value);
