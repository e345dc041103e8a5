"""EASY backfill: which jobs may start before a waiting head of a queue without delaying it. Pure. Decision 0008.

The resources that a head needs are reserved for it. Another job may start if it fits beside all reservations, in every
dimension that it uses. It may also use reserved resources if it is certain to return them in time. For that the latest
start of the head must be known, because enough running jobs have a timeout or a stop order, and the other job must have
a timeout and end before that start. Decision 0008 proves that no job starves.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from batchq.domain.job import Job
from batchq.domain.lifecycle.container_rules import BEGUN
from batchq.domain.lifecycle.escalation import is_unkillable, latest_kill
from batchq.domain.scheduling.machine_rooms import NOTHING, Kept, Room, plus
from batchq.domain.scheduling.resources import Amounts, Dimension, add_amounts, fits

START_ALLOWANCE = timedelta(minutes=1)  # from the placement to the container's start
STOP_ALLOWANCE = timedelta(minutes=2)  # from a timeout to the container's end: AWS's longest stopTimeout


class Ending(Struct, frozen=True, kw_only=True):
    """The latest end of a job that holds resources, and what it returns then."""

    at: datetime
    amounts: Amounts
    #: What it returns on machines, by their index.
    rooms: Sequence[tuple[int, Room]] = ()


class Reservation(Struct, frozen=True, kw_only=True):
    """The reservation for a waiting job."""

    #: What other jobs may use only if they end before `starts`.
    amounts: Amounts
    #: The latest start of the waiting job; None: not known.
    starts: datetime | None
    #: What no other job may use: vCPUs of its accounts' limits, and units that are not returned.
    reserved: Amounts = field(default_factory=dict)
    #: What other jobs may use of machines, by their index, only if they end before `starts`.
    rooms: Kept = field(default_factory=dict)


class Reservations:
    """All reservations of a pass. Their sums are updated with each reservation, because there may be many queues."""

    def __init__(self) -> None:
        self._known: list[Reservation] = []  # reservations with a known start, ascending by it
        self._unknown = 0  # the number of the others
        self._of_unknown: dict[Dimension, int] = {}
        self._of_all: dict[Dimension, int] = {}
        self._reserved: dict[Dimension, int] = {}
        self._rooms_of_unknown: dict[int, Room] = {}

    def add(self, reservation: Reservation) -> None:
        """Add a reservation. The cost is that of a sorted insertion."""
        for amounts in (reservation.amounts, reservation.reserved):
            add_amounts(self._of_all, amounts)
        add_amounts(self._reserved, reservation.reserved)
        if reservation.starts is None:
            self._unknown += 1
            add_amounts(self._of_unknown, reservation.amounts)
            _add_rooms(self._rooms_of_unknown, reservation.rooms)
        else:
            insort(self._known, reservation, key=_start)

    def before(self, until: datetime | None) -> int:
        """How many reservations a job that ends at `until` must not use; None: its end is not known.

        They are those without a known start, and those with a start up to `until`. `reserved_for` takes the result.
        """
        return self._unknown + (len(self._known) if until is None else bisect_right(self._known, until, key=_start))

    def reserved_for(self, count: int) -> Amounts:
        """What a job must leave free: the `amounts` of the first `count` reservations, and `reserved` of all of them.

        The result has the sum for each dimension. The reservations without a known start are the first, and the others
        follow by their start.
        """
        if count == self._unknown + len(self._known):
            return self._of_all
        kept = self._of_unknown | self._reserved
        for reservation in self._known[: count - self._unknown]:
            add_amounts(kept, reservation.amounts)
        return kept

    def rooms_for(self, count: int) -> Kept:
        """The `rooms` of the first `count` reservations, in the order of `reserved_for`."""
        kept = self._rooms_of_unknown.copy()
        for reservation in self._known[: count - self._unknown]:
            _add_rooms(kept, reservation.rooms)
        return kept


def latest_end(job: Job, now: datetime) -> datetime | None:
    """The latest end of an active job; None if it has neither a timeout nor a stop order, or is unkillable.

    After that time the job may end at any moment.
    """
    assert job.attempt is not None, f"{job.id} is active and has no attempt"
    if job.stop is not None:
        if is_unkillable(job.stop.killed_at, now):
            return None
        under_way = (container for container in job.attempt.containers if container.state in BEGUN)
        return max((latest_kill(container, now) for container in under_way), default=now)
    if job.spec.timeout is None:
        return None
    if job.attempt.started_at is None:
        return latest_end_if_placed(job.spec.timeout, now)
    graces = (container.stop_timeout for task in job.spec.nodes.tasks for container in task.containers)
    grace = max(job.spec.stop_grace if own is None else own for own in graces)
    return job.attempt.started_at + job.spec.timeout + grace


def latest_end_if_placed(longest: timedelta | None, now: datetime) -> datetime | None:
    """The latest end of a job that is placed at `now`; `longest` is its timeout. None without a timeout."""
    return None if longest is None else now + START_ALLOWANCE + longest + STOP_ALLOWANCE


def latest_start(
    demands: Sequence[Amounts], free: Mapping[Dimension, int], endings: Iterable[Ending]
) -> datetime | None:
    """The latest time at which one of the demands `demands` fits, because running jobs have ended; None: not known.

    `free`: what is free now. `endings`: the running jobs with a known latest end.
    """
    unreserved = dict(free)
    for ending in sorted(endings, key=lambda ending: ending.at):
        for dimension, amount in ending.amounts.items():
            unreserved[dimension] = unreserved.get(dimension, 0) + amount
        if any(fits(amounts, unreserved) for amounts in demands):
            return ending.at
    return None


def _add_rooms(kept: dict[int, Room], rooms: Kept) -> None:
    """Add `rooms` to the sums in place."""
    for index, room in rooms.items():
        kept[index] = plus(kept.get(index, NOTHING), room)


def _start(reservation: Reservation) -> datetime:
    assert reservation.starts is not None, "a reservation with an unknown start is not sorted"
    return reservation.starts
