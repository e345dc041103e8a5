"""Container runtimes: the Docker engine, and a simulated engine."""
