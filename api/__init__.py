"""The HTTP API: AWS Batch, CloudWatch Logs, and batchq's own operations."""
