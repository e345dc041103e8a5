-- Whose the job of an act is, where it is not the acting user's, or not of the acting user's account: rarely.

ALTER TABLE acts ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE acts ADD COLUMN owner_account TEXT NOT NULL DEFAULT '';

CREATE INDEX acts_of_owner ON acts (owner, at) WHERE owner <> '';
CREATE INDEX acts_of_owner_account ON acts (owner_account, at) WHERE owner_account <> '';
