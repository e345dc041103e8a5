"""Container logs: capture, storage limits, reading and searching."""
