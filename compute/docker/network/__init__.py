"""The networks of containers on a Docker engine."""
