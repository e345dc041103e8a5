"""The web console: HTML pages and forms for browsers, rendered by the server."""
