"""The inside of batchq: what a job is, and what becomes of it."""
