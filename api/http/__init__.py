"""HTTP for every dialect: messages, credentials, connections, TLS and page tokens."""
