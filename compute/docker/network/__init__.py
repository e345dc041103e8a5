"""Networks of containers on a Docker engine."""
