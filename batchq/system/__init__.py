"""The machine: its clock, its facts, private files, escapes of control characters, and token buckets."""
