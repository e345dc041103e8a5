"""A day's workload, scheduled by the whole engine on simulated containers and the virtual clock.

`workload` generates the jobs, `run` executes them, `metrics` measures. `python -m tests.schedule` prints the metrics.
"""
