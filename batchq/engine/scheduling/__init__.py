"""Which jobs start next, and where."""
