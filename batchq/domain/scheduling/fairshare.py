"""Whose turn it is in a queue with a fair-share policy. Pure. Decision 0009 says why it is fair.

A share's use is its vCPU-time, held against it less and less: it decays exponentially. The next to start is a job of
the share with the least use x weight, as the use will stand a little later if all that it holds runs on. So what one
turn places counts at once, and shares that always have jobs waiting get vCPU-time in proportion to 1 / weight.
"""

import heapq
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.catalog import SchedulingPolicy
from batchq.domain.ids import QueueName
from batchq.domain.job import ACTIVE, FINISHED, Job

LEAST_DECAY = timedelta(seconds=600)
AHEAD = 0.2  # of a decay window: with more, large jobs gain; with less, shares overshoot by turns (measured)
MOST_SHARES = 500  # AWS: active ones of a queue


class ShareKey(NamedTuple):
    queue: QueueName
    share: str


class ShareUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The present and the recent use of a share."""

    #: Its jobs that are not finished; an array counts as one.
    active: int = 0
    #: Thousandths of a vCPU that its placed jobs hold.
    millicpus: int = 0
    #: Thousandths of a vCPU-second, decayed, at `as_of`.
    used: float = 0.0
    #: The time of `used`.
    as_of: datetime


class Change(NamedTuple):
    """A job before and after a unit of work; `before` None is its submission."""

    before: Job | None
    after: Job


def window(policy: SchedulingPolicy | None) -> timedelta:
    """AWS: a shareDecaySeconds of 0 is its least window."""
    return policy.decay if policy is not None and policy.decay else LEAST_DECAY


def accrued(use: ShareUse, now: datetime, decay: timedelta) -> ShareUse:
    """The use as it stands at `now`, when all that is held was held since."""
    passed = max(timedelta(), now - use.as_of) / decay
    kept = math.exp(-passed)
    held = use.millicpus * decay.total_seconds()
    return replace(use, used=use.used * kept + held * (1 - kept), as_of=max(now, use.as_of))


def follow(
    uses: Mapping[ShareKey, ShareUse],
    changes: Iterable[Change],
    now: datetime,
    decays: Mapping[QueueName, timedelta],
) -> dict[ShareKey, ShareUse]:
    """The uses that these changes have changed, as of `now`."""
    changed: dict[ShareKey, ShareUse] = {}
    for change in changes:
        active, millicpus = _moved(change)
        share = change.after.spec.share_identifier
        if share is None or not (active or millicpus):
            continue
        key = ShareKey(change.after.spec.queue, share)
        use = changed.get(key) or accrued(uses.get(key) or ShareUse(as_of=now), now, decays.get(key.queue, LEAST_DECAY))
        changed[key] = replace(use, active=use.active + active, millicpus=use.millicpus + millicpus)
    return changed


def may_open(uses: Mapping[ShareKey, ShareUse], key: ShareKey, opened: Iterable[ShareKey]) -> bool:
    """Whether a job of this share may be submitted: not when the queue has all the active shares it may have.

    `opened` are the shares of jobs that are newer than `uses`. They are read no further than needed.
    """
    if _is_active(uses, key):
        return True
    newer: set[ShareKey] = set()
    for other in opened:
        if other == key:
            return True
        if other.queue == key.queue and not _is_active(uses, other):
            newer.add(other)
    return active_shares(uses, key.queue) + len(newer) < MOST_SHARES


def _is_active(uses: Mapping[ShareKey, ShareUse], key: ShareKey) -> bool:
    return key in uses and uses[key].active > 0


def active_shares(uses: Mapping[ShareKey, ShareUse], queue: QueueName) -> int:
    return sum(key.queue == queue and use.active > 0 for key, use in uses.items())


def most_held(policy: SchedulingPolicy, *, active: int, max_millicpus: int) -> int:
    """What the jobs of a queue may hold together: computeReservation keeps the rest for shares that are to come."""
    return int(max_millicpus * (1 - (policy.reservation / 100) ** active))


class Picker:
    """The shares of a queue in the order in which they come to start a job, each as often as it is its turn."""

    def __init__(self, *, uses: Mapping[str, ShareUse], policy: SchedulingPolicy | None, now: datetime) -> None:
        decay = window(policy)
        then = now + AHEAD * decay
        self._each = decay.total_seconds() * (1 - math.exp(-AHEAD))  # what a thousandth held until then comes to
        self._weights = {share: 1.0 if policy is None else policy.weight(share) for share in uses}
        self._line = [(accrued(it, then, decay).used * self._weights[share], share) for share, it in uses.items()]
        heapq.heapify(self._line)

    @property
    def next(self) -> str | None:
        return self._line[0][1] if self._line else None

    def took(self, millicpus: int) -> None:
        """The next share's job has had its turn, and may hold so much."""
        weighted, share = self._line[0]
        heapq.heapreplace(self._line, (weighted + millicpus * self._each * self._weights[share], share))

    def drop(self) -> None:
        """The next share has no more jobs that wait."""
        heapq.heappop(self._line)


def _moved(change: Change) -> tuple[int, int]:
    """By how many jobs, and by how much that is held. The children of an array are no jobs of their own here."""
    before, after = change
    active = 0 if after.child is not None else _lives(after) - (0 if before is None else _lives(before))
    return active, _holds(after) - (0 if before is None else _holds(before))


def _lives(job: Job) -> int:
    return job.status not in FINISHED


def _holds(job: Job) -> int:
    return job.spec.resources.millicpus if job.status in ACTIVE else 0
