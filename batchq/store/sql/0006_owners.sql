-- Whose jobs are. Those from before there were users are nobody's, in the account above all others.

ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN account TEXT NOT NULL DEFAULT 'root';
