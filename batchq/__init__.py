"""The AWS Batch API on this machine's Docker engine.

A tour, in the order to read it:

`domain/lifecycle/transitions.py` is the table of everything that may happen to a job; beside it are `arrays.py` and
`containers.py`, for jobs of many children and of several containers. `engine/loop.py` applies the table, in units of
work of one commit each. `ports/` names the interfaces to the outside; `store/` and `compute/` implement them.
`services/` are the use cases, and `api/` is how AWS's clients reach them. `bootstrap.py` assembles the server, and
`cli/` starts it. `docs/decisions/` gives the reasons.
"""

__version__ = "0.1.0"
