"""Who may do what, and what an account's containers may have. Pure."""
