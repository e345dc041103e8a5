"""Handlers, one function for each operation: translate the request, call the service, translate the result."""
