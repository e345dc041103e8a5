"""The command line: modules of commands, and what the commands share. A module is imported when its command runs."""
