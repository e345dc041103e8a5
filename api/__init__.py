"""How people and programs talk to batchq."""
