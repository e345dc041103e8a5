"""The whole engine on a clock that costs nothing, against an engine that lies and a disk that fails. A seed is a run.

Read `run` first: it tells the course of a life. `oracles` says what must hold whatever happens.
"""
