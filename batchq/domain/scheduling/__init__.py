"""Scheduling rules: resource demand, free capacity, backfill, fair share, account limits, dependencies. Pure."""
