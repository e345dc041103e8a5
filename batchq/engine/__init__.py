"""The engine: the loop that decides about jobs, and the components that schedule jobs and run containers."""
