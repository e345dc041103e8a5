"""A day's workload, scheduled by the whole engine on simulated containers and the virtual clock.

`python -m tests.schedule` prints the metrics.
"""
