"""Users, accounts and access keys, and the operations of their administrators."""
