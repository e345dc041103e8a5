"""The audit log: which user changed what."""
