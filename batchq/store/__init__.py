"""The store: adapters of the storage ports on SQLite and files."""
