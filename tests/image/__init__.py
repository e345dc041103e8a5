"""The container image of packaging/Dockerfile, built from files of this machine, and the compose file."""
