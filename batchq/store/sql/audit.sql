-- Writes of the audit log. Its queries are built in Python.

-- insert_record
INSERT INTO audit_log (
    at, user, account, key, request_id, operation, resource, outcome, owner, owner_account, journal_entry
)
VALUES (
    :at, :user, :account, :key, :request_id, :operation, :resource, :outcome, :owner, :owner_account, :journal_entry
)
ON CONFLICT DO NOTHING;

-- delete_old_records
DELETE FROM audit_log WHERE number IN (SELECT number FROM audit_log WHERE at < :before ORDER BY at LIMIT :limit);
