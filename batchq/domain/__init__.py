"""The core: what may happen to a job. Pure: it waits for nothing, reads no clock, imports only itself and errors."""
