"""Where jobs and the catalog are kept: SQLite, or memory. Both answer the same ports."""
