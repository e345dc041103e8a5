"""A simulated container engine: its containers follow scripts on a clock."""
