"""Where containers run."""
