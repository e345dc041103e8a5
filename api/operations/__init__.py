"""The operations of all dialects: their tables, schemas, OpenAPI description and middleware."""
