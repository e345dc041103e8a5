"""What a job needs, what is free, and whose turn it is. Pure."""
