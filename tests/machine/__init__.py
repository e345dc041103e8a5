"""Random sequences of requests, run by the whole engine and compared with a small model of what must follow.

`requests` generates the sequences, `run` executes one in a simulated world and records each commit, `model` has the
rules. The model imports nothing of `batchq.domain`: it is a second implementation.
"""
