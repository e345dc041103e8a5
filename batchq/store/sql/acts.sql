-- insert_act
INSERT INTO acts (at, user, account, key, request_id, operation, about, outcome, owner, owner_account, mark)
VALUES (:at, :user, :account, :key, :request_id, :operation, :about, :outcome, :owner, :owner_account, :mark)
ON CONFLICT DO NOTHING;

-- prune_acts
DELETE FROM acts WHERE number IN (SELECT number FROM acts WHERE at < :before ORDER BY at LIMIT :limit);
