"""The ports: protocols for the store, the container runtime, the log archive and the clock, with their values."""
