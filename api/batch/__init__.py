"""The API of AWS Batch."""
