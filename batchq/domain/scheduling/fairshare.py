"""Fair share: the order of the shares of a queue with a fair-share policy. Pure. Decision 0009 has the reasons.

The usage of a share is its vCPU time, which decays exponentially. The next job comes from the share with the lowest
usage x weight. This usage is the value expected after LOOKAHEAD decay windows if all jobs of the share continue. So a
placement counts at once, and shares that always have waiting jobs get vCPU time in proportion to 1 / weight.
"""

import heapq
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import UserName
from batchq.domain.catalog import SchedulingPolicy
from batchq.domain.enums import ACTIVE, FINISHED
from batchq.domain.ids import QueueName
from batchq.domain.job import Job

MIN_DECAY = timedelta(seconds=600)
LOOKAHEAD = 0.2  # decay windows to look ahead: more favours large jobs, less makes shares overshoot in turn (measured)
MAX_SHARES = 500  # AWS: active shares of a queue


class ShareKey(NamedTuple):
    """A share of a queue."""

    queue: QueueName
    #: The share identifier.
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
    #: The user whose job made the share active; empty: not known.
    opener: UserName = UserName("")


class Change(NamedTuple):
    """A job before and after a unit of work."""

    #: None: the job was submitted in this unit of work.
    before: Job | None
    after: Job


def decay_window(policy: SchedulingPolicy | None) -> timedelta:
    """The decay window of a queue. AWS: 600 s if shareDecaySeconds is 0, or the queue has no policy."""
    return policy.decay if policy is not None and policy.decay else MIN_DECAY


def accrued(use: ShareUse, now: datetime, decay: timedelta) -> ShareUse:
    """The usage at `now` of a share that has held the same vCPUs since `use.as_of`. `decay`: the decay window."""
    passed = max(timedelta(), now - use.as_of) / decay
    kept = math.exp(-passed)
    held = use.millicpus * decay.total_seconds()
    return replace(use, used=use.used * kept + held * (1 - kept), as_of=max(now, use.as_of))


def updated_usage(
    uses: Mapping[ShareKey, ShareUse], changes: Iterable[Change], now: datetime, decays: Mapping[QueueName, timedelta]
) -> dict[ShareKey, ShareUse]:
    """The usage, as of `now`, of each share that these changes concern. `decays`: the window of each queue."""
    changed: dict[ShareKey, ShareUse] = {}
    for change in changes:
        active, millicpus = _moved(change)
        share = change.after.spec.share_identifier
        if share is None or not (active or millicpus):
            continue
        key = ShareKey(change.after.spec.queue, share)
        use = changed.get(key) or accrued(uses.get(key) or ShareUse(as_of=now), now, decays.get(key.queue, MIN_DECAY))
        opener = change.after.spec.owner.user if active > 0 and not use.active else use.opener
        changed[key] = replace(use, active=use.active + active, millicpus=use.millicpus + millicpus, opener=opener)
    return changed


def share_refusal(
    uses: Mapping[ShareKey, ShareUse],
    key: ShareKey,
    opened: Iterable[tuple[ShareKey, UserName]],
    *,
    user: UserName | None,
) -> str | None:
    """Why a job of a share that is not active may not be submitted; None: it may.

    A queue has at most MAX_SHARES active shares. A user opens at most as many as are left for others, so that the
    shares of one user do not keep all other users from the queue.

    `opened`: the shares of the jobs submitted since `uses` was computed, and the users of these jobs. It is read only
    as far as needed. `user`: who submits the job; None: users are not distinguished.
    """
    if _is_active(uses, key):
        return None
    newer: dict[ShareKey, UserName] = {}
    for other, opener in opened:
        if other == key:
            return None
        if other.queue == key.queue and not _is_active(uses, other):
            newer.setdefault(other, opener)
    openers = [use.opener for other, use in uses.items() if other.queue == key.queue and use.active > 0]
    openers += newer.values()
    free = MAX_SHARES - len(openers)
    if free <= 0:
        return f"JobQueue {key.queue} has {MAX_SHARES} active share identifiers, which is the maximum."
    if user is None or (own := openers.count(user)) < free:
        return None
    return (
        f"JobQueue {key.queue} has {len(openers)} active share identifiers, {own} of them first used by {user}. "
        f"The other {free} are left for other users: use an active share identifier, or wait until jobs have ended."
    )


def _is_active(uses: Mapping[ShareKey, ShareUse], key: ShareKey) -> bool:
    return key in uses and uses[key].active > 0


def active_shares(uses: Mapping[ShareKey, ShareUse], queue: QueueName) -> int:
    """How many shares of the queue have unfinished jobs."""
    return sum(key.queue == queue and use.active > 0 for key, use in uses.items())


def max_usable_millicpus(policy: SchedulingPolicy, *, active: int, max_millicpus: int) -> int:
    """The vCPUs, in thousandths, that the jobs of a queue may hold together. AWS: maxvCpus x (1 - (r/100)^active).

    r is the policy's computeReservation: it keeps the rest free for shares that are not active yet.
    """
    return int(max_millicpus * (1 - (policy.reservation / 100) ** active))


class SharePicker:
    """The dispatch order of the shares of a queue: `next` is the share whose job is considered next.

    The caller calls `charge` after each job, and `drop` when the share has no more waiting jobs.
    """

    def __init__(self, *, uses: Mapping[str, ShareUse], policy: SchedulingPolicy | None, now: datetime) -> None:
        decay = decay_window(policy)
        then = now + LOOKAHEAD * decay
        self._each = decay.total_seconds() * (
            1 - math.exp(-LOOKAHEAD)
        )  # the usage of a thousandth of a vCPU until then
        self._weights = {share: 1.0 if policy is None else policy.weight(share) for share in uses}
        self._line = [(accrued(use, then, decay).used * self._weights[share], share) for share, use in uses.items()]
        heapq.heapify(self._line)

    @property
    def next(self) -> str | None:
        """The share with the lowest weighted usage; None if no share is left."""
        return self._line[0][1] if self._line else None

    def charge(self, millicpus: int) -> None:
        """Charge the next share with a job of this size, whether or not the job was placed."""
        weighted, share = self._line[0]
        heapq.heapreplace(self._line, (weighted + millicpus * self._each * self._weights[share], share))

    def drop(self) -> None:
        """Remove the next share, which has no more waiting jobs."""
        heapq.heappop(self._line)


def _moved(change: Change) -> tuple[int, int]:
    """The change of the share's unfinished jobs and of its vCPUs, in thousandths. An array counts as one job."""
    before, after = change
    active = 0 if after.child is not None else _active_count(after) - (0 if before is None else _active_count(before))
    return active, _used_millicpus(after) - (0 if before is None else _used_millicpus(before))


def _active_count(job: Job) -> int:
    return job.status not in FINISHED


def _used_millicpus(job: Job) -> int:
    return job.spec.resources.millicpus if job.status in ACTIVE else 0
