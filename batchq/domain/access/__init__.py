"""Access control: users, accounts, roles, permissions, container policies and audit records. Pure."""
