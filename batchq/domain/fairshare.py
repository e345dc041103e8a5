"""Whose turn it is in a queue with a fair-share policy. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from batchq.domain.names import QueueName


class ShareKey(NamedTuple):
    queue: QueueName
    share: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUse:
    """What a share uses and has used of late.

    `active`: its jobs that are not finished, an array counted as one. `millicpus`: what its placed jobs hold. `used`:
    decayed thousandths of a vCPU-second, as of `as_of`.
    """

    active: int = 0
    millicpus: int = 0
    used: float = 0.0
    as_of: datetime
