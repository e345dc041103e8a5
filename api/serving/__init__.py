"""The HTTP application and its connections."""
