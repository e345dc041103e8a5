"""The whole engine on a clock that costs nothing, against an engine that lies and a disk that fails. A seed is a run.

Read `run` first; `invariants` has what must hold in every run.
"""
