"""Containers that are only simulated: they play scripts on a clock."""
