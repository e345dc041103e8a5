"""The AWS Batch API on this machine's Docker engine.

A tour, in the order to read it:

`domain/lifecycle/transitions.py` says all that may happen to a job: a table; beside it `arrays.py` and `parts.py`, for jobs of many
children and of several containers. `engine/loop.py` applies it, in turns of one commit. `ports.py` names the outside;
`store/` and `compute/` answer. `service.py` and `catalog.py` are what can be asked for; `api/` lets AWS's clients ask.
`bootstrap.py` puts it together, and `cli/` starts it. `docs/decisions/` says why.
"""

__version__ = "0.1.0"
