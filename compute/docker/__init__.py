"""The container runtime on a Docker engine."""
