"""Who did what: the audit log."""
