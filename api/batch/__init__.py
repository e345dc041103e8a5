"""AWS Batch, as its clients speak it."""
