-- Log streams by age, those of one moment by name: so a page goes on behind a stream that is no longer there.

DROP INDEX streams_by_age;
DROP INDEX streams_of_owner_by_age;
DROP INDEX streams_of_account_by_age;
CREATE INDEX streams_by_age ON streams (created_at, name);
CREATE INDEX streams_of_owner_by_age ON streams (owner, created_at, name);
CREATE INDEX streams_of_account_by_age ON streams (account, created_at, name);
