"""The part of CloudWatch Logs that AWS Batch's clients read with."""
