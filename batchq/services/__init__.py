"""The services: the use cases that the API's handlers call."""
