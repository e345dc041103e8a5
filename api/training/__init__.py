"""The dialects for training jobs."""
