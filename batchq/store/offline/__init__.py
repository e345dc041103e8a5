"""Maintenance of the data beside a server: backup, restore, check, examination."""
