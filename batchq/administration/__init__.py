"""Accounts, users and keys: what can be asked about them, by a request or by a command on the files, in one way."""
