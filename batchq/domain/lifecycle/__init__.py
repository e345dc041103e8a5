"""The state machine of jobs, attempts and containers. Pure; `transitions` has the table to read first."""
