"""Logs of containers: captured, stored, read and searched."""
