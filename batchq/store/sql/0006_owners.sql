-- Whose jobs are. Those from before there were users are nobody's, in the account above all others.

ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN account TEXT NOT NULL DEFAULT 'root';
ALTER TABLE streams ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE streams ADD COLUMN account TEXT NOT NULL DEFAULT 'root';
ALTER TABLE definitions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE definitions ADD COLUMN account TEXT NOT NULL DEFAULT 'root';

-- What a user lists costs him what is his, and not what others have. ListJobs shows no children of arrays.
CREATE INDEX jobs_of_owner ON jobs (owner, queue, status) WHERE parent_ord IS NULL;
CREATE INDEX jobs_of_account ON jobs (account, queue, status) WHERE parent_ord IS NULL;
CREATE INDEX streams_of_owner ON streams (owner, name);
CREATE INDEX streams_of_account ON streams (account, name);
CREATE INDEX streams_of_owner_by_age ON streams (owner, created_at);
CREATE INDEX streams_of_account_by_age ON streams (account, created_at);
CREATE INDEX definitions_of_owner ON definitions (owner, name, revision, status);
CREATE INDEX definitions_of_account ON definitions (account, name, revision, status);
