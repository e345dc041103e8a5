"""A second version of the schema, known to tests only: what a later release may do to a database."""

from batchq.store import statements

VERSION = statements.newest_schema() + 1
SCRIPT = """
-- A column with a default, and one that is computed from JSON.
ALTER TABLE jobs ADD COLUMN zone TEXT NOT NULL DEFAULT 'here';
ALTER TABLE jobs ADD COLUMN image TEXT;
UPDATE jobs SET image = specs.image
FROM (
    SELECT sequence, json_extract(spec, '$.nodes.ranges[0].task.containers[0].spec.image') AS image FROM job_specs
) AS specs
WHERE specs.sequence = jobs.sequence;

-- An index that is replaced.
DROP INDEX jobs_active;
CREATE INDEX jobs_active ON jobs (status, zone) WHERE status IN ('STARTING', 'RUNNING');

-- A table that is filled from another one.
CREATE TABLE images (name TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO images (name) SELECT DISTINCT image FROM jobs WHERE image IS NOT NULL;
"""
STEPS = {**statements.MIGRATIONS, VERSION: SCRIPT}
