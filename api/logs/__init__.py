"""The API of CloudWatch Logs: the operations with which clients of AWS Batch read logs."""
