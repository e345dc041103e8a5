"""The transcript of docs/operations.md: batchq is installed, upgraded, backed up and restored in a fresh Debian."""
