"""Maintenance of a data directory from outside the server: backup, restore, check, examination, audit records."""
