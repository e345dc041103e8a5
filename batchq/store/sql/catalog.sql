-- environments
SELECT name, value FROM environments ORDER BY name;

-- put_environment
INSERT INTO environments (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value;

-- drop_environment
DELETE FROM environments WHERE name = :name;

-- queues
SELECT name, value FROM queues ORDER BY name;

-- put_queue
INSERT INTO queues (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value;

-- drop_queue
DELETE FROM queues WHERE name = :name;

-- policies
SELECT name, value FROM policies ORDER BY name;

-- put_policy
INSERT INTO policies (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value;

-- drop_policy
DELETE FROM policies WHERE name = :name;

-- consumables
SELECT name, value FROM consumables ORDER BY name;

-- put_consumable
INSERT INTO consumables (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value;

-- drop_consumable
DELETE FROM consumables WHERE name = :name;

-- consumable_update
SELECT value FROM consumable_updates WHERE resource = :resource AND token = :token;

-- note_consumable_update
INSERT OR REPLACE INTO consumable_updates (resource, token, at, value) VALUES (:resource, :token, :at, :value);

-- forget_consumable_updates
DELETE FROM consumable_updates WHERE at < :before;

-- drop_consumable_updates
DELETE FROM consumable_updates WHERE resource = :name;

-- last_revision
SELECT max(revision) FROM definitions WHERE name = :name;

-- insert_definition
INSERT INTO definitions (name, revision, status, owner, account, value)
VALUES (:name, :revision, :status, :owner, :account, :value);

-- update_definition
UPDATE definitions SET status = :status, value = :value WHERE name = :name AND revision = :revision;

-- definition
SELECT value FROM definitions WHERE name = :name AND revision = :revision;

-- owner_of_definition
SELECT owner, account FROM definitions WHERE name = :name ORDER BY revision LIMIT 1;

-- newest_active
SELECT value FROM definitions WHERE status = 'ACTIVE' AND name = :name ORDER BY revision DESC;

-- definitions
SELECT value FROM definitions
WHERE (name, revision) > (:after_name, :after_revision) ORDER BY name, revision;

-- definitions_of_status
SELECT value FROM definitions
WHERE status = :status AND (name, revision) > (:after_name, :after_revision) ORDER BY name, revision;

-- definitions_of_owner
SELECT value, name, revision FROM definitions INDEXED BY definitions_of_owner
WHERE owner = :whose AND (name, revision) > (:after_name, :after_revision) AND status = coalesce(:status, status)
ORDER BY name, revision;

-- definitions_of_account
SELECT value, name, revision FROM definitions INDEXED BY definitions_of_account
WHERE account = :whose AND (name, revision) > (:after_name, :after_revision) AND status = coalesce(:status, status)
ORDER BY name, revision;

-- revisions
SELECT value FROM definitions WHERE name = :name AND revision > :after_revision ORDER BY revision;

-- revisions_of_status
SELECT value FROM definitions
WHERE status = :status AND name = :name AND revision > :after_revision ORDER BY revision;

-- flag
SELECT value FROM meta WHERE name = :name;

-- set_flag
INSERT OR REPLACE INTO meta (name, value) VALUES (:name, :value);
