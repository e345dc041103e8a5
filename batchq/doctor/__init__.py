"""What is wrong, and what to do: facts of engine, data, clock and server in, findings out. Pure."""
