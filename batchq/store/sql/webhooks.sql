-- Webhooks.

-- webhooks
SELECT id, value, progress FROM webhooks ORDER BY created_at, id;

-- put_webhook
INSERT INTO webhooks (id, created_at, value, progress) VALUES (:id, :created_at, :value, :progress)
ON CONFLICT (id) DO UPDATE SET value = :value, progress = :progress;

-- put_progress
UPDATE webhooks SET progress = :progress WHERE id = :id;

-- delete_webhook
DELETE FROM webhooks WHERE id = :id;
