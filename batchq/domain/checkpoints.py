"""Checkpoints of a job: what the job declares about them. Pure."""

from datetime import timedelta

from msgspec import Struct

CHECKPOINT_SIGNALS = frozenset({"HUP", "INT", "USR1", "USR2"})
"""The signals that a job may declare as its request for a checkpoint."""

DEFAULT_CHECKPOINT_TIMEOUT = timedelta(seconds=120)
MIN_CHECKPOINT_TIMEOUT = timedelta(seconds=1)
MAX_CHECKPOINT_TIMEOUT = timedelta(hours=1)


class CheckpointRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job with a checkpoint directory is requested to write a checkpoint."""

    #: One of CHECKPOINT_SIGNALS; None: the job declares no such signal, and its stop signal is the request.
    signal: str | None = None
    #: How long a final checkpoint is waited for: from MIN_CHECKPOINT_TIMEOUT to MAX_CHECKPOINT_TIMEOUT.
    timeout: timedelta = DEFAULT_CHECKPOINT_TIMEOUT
