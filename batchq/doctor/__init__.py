"""The diagnosis of an installation: facts about engine, data, clock and server in, findings out. Pure."""
