-- Compute environments, job queues, scheduling policies, consumable resources and job definitions.

-- resources
SELECT name, value FROM catalog_resources WHERE kind = :kind ORDER BY name;

-- put_resource
INSERT INTO catalog_resources (kind, name, value) VALUES (:kind, :name, :value)
ON CONFLICT (kind, name) DO UPDATE SET value = :value;

-- delete_resource
DELETE FROM catalog_resources WHERE kind = :kind AND name = :name;

-- consumable_resource_update
SELECT at, value FROM consumable_resource_updates WHERE resource = :resource AND token = :token;

-- put_consumable_resource_update
INSERT OR REPLACE INTO consumable_resource_updates (resource, token, at, value) VALUES (:resource, :token, :at, :value);

-- delete_old_consumable_resource_updates
DELETE FROM consumable_resource_updates WHERE at < :before;

-- delete_consumable_resource_updates
DELETE FROM consumable_resource_updates WHERE resource = :name;

-- last_revision
SELECT max(revision) FROM job_definitions WHERE name = :name;

-- insert_job_definition
INSERT INTO job_definitions (name, revision, status, owner, account, value)
VALUES (:name, :revision, :status, :owner, :account, :value);

-- update_job_definition
UPDATE job_definitions SET status = :status, value = :value WHERE name = :name AND revision = :revision;

-- job_definition
SELECT value FROM job_definitions WHERE name = :name AND revision = :revision;

-- owner_of_job_definition
SELECT owner, account FROM job_definitions WHERE name = :name ORDER BY revision LIMIT 1;

-- newest_active_revision
SELECT value FROM job_definitions WHERE status = 'ACTIVE' AND name = :name ORDER BY revision DESC;

-- job_definitions
SELECT name, revision FROM job_definitions
WHERE name >= :after_name AND (name > :after_name OR revision < :after_revision) ORDER BY name, revision DESC;

-- job_definitions_with_status
SELECT name, revision FROM job_definitions INDEXED BY job_definitions_by_status
WHERE status = :status AND name >= :after_name AND (name > :after_name OR revision < :after_revision)
ORDER BY name, revision DESC;

-- job_definitions_of_owner
SELECT name, revision FROM job_definitions INDEXED BY job_definitions_by_owner
WHERE owner = :owner AND name >= :after_name AND (name > :after_name OR revision < :after_revision)
    AND status = coalesce(:status, status)
ORDER BY name, revision DESC;

-- job_definitions_of_account
SELECT name, revision FROM job_definitions INDEXED BY job_definitions_by_account
WHERE account = :account AND name >= :after_name AND (name > :after_name OR revision < :after_revision)
    AND status = coalesce(:status, status)
ORDER BY name, revision DESC;

-- revisions
SELECT value FROM job_definitions WHERE name = :name AND revision < :after_revision ORDER BY revision DESC;

-- revisions_with_status
SELECT value FROM job_definitions
WHERE status = :status AND name = :name AND revision < :after_revision ORDER BY revision DESC;

-- flag
SELECT value FROM metadata WHERE name = :name;

-- set_flag
INSERT OR REPLACE INTO metadata (name, value) VALUES (:name, :value);
