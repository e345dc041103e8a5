"""One function an operation: parse, call, answer."""
