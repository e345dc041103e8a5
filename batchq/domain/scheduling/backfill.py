"""Who may start before a job that waits in front of it without delaying it. Pure. Decision 0008 has the proof.

What the waiting job needs is set aside. Another may take what is beside that, in every dimension it uses; and it may
take what is set aside if it is sure to give it back in time: the start of the one that waits is known (enough of what
runs has a timeout), and the other has a timeout too, and ends before.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from batchq.domain.job import Job
from batchq.domain.scheduling.resources import Amounts, Dimension, within

START_ALLOWANCE = timedelta(minutes=1)  # from a placing to the container's start
STOP_ALLOWANCE = timedelta(minutes=2)  # from a timeout to the container's end: AWS's longest stopTimeout


class Ending(Struct, frozen=True, kw_only=True):
    """When at the latest a job that holds room is over, and what it then gives back."""

    at: datetime
    amounts: Amounts


class Reservation(Struct, frozen=True, kw_only=True):
    """What is kept for a job that waits, and by when at the latest it starts, if that is known.

    `reserved` is what is not lent to jobs that end before that either: what its account's limits leave it, and what
    does not come back.
    """

    amounts: Amounts
    starts: datetime | None
    reserved: Amounts = field(default_factory=dict)


class Reservations:
    """All that is set aside. What of it is kept from a job is added up beforehand: there may be many queues."""

    def __init__(self) -> None:
        self._known: list[Reservation] = []  # those whose start is known, by that
        self._unknown = 0
        self._of_unknown: dict[Dimension, int] = {}
        self._of_all: dict[Dimension, int] = {}
        self._reserved: dict[Dimension, int] = {}

    def add(self, aside: Reservation) -> None:
        for amounts in (aside.amounts, aside.reserved):
            _add(self._of_all, amounts)
        _add(self._reserved, aside.reserved)
        if aside.starts is None:
            self._unknown += 1
            _add(self._of_unknown, aside.amounts)
        else:
            insort(self._known, aside, key=_start)

    def before(self, until: datetime | None) -> int:
        """How many of those for whom it is may start before `until` (None: nobody knows when), the first to start."""
        return self._unknown + (len(self._known) if until is None else bisect_right(self._known, until, key=_start))

    def kept_for(self, count: int) -> Amounts:
        """What is kept for the first so many of them, and reserved for all."""
        if count == self._unknown + len(self._known):
            return self._of_all
        kept = self._of_unknown | self._reserved
        for aside in self._known[: count - self._unknown]:
            _add(kept, aside.amounts)
        return kept


def ends(job: Job, now: datetime) -> datetime | None:
    """When at the latest a job under way is over, None if nothing ends it. Past that it may end at any moment."""
    assert job.attempt is not None, f"{job.id} holds room and has no attempt"
    if job.stop is not None:
        return job.stop.kill_at or now + job.stop.grace
    if job.spec.timeout is None:
        return None
    if job.attempt.started_at is None:
        return would_end(job.spec.timeout, now)
    return job.attempt.started_at + job.spec.timeout + _grace(job)


def would_end(longest: timedelta | None, now: datetime) -> datetime | None:
    """When at the latest a job is over that is placed now."""
    return None if longest is None else now + START_ALLOWANCE + longest + STOP_ALLOWANCE


def starts(wanted: Sequence[Amounts], free: Mapping[Dimension, int], endings: Iterable[Ending]) -> datetime | None:
    """When at the latest one of these fits, as what runs comes to its end; None if that cannot be known."""
    there = dict(free)
    for ending in sorted(endings, key=lambda it: it.at):
        for of, amount in ending.amounts.items():
            there[of] = there.get(of, 0) + amount
        if any(within(each, there) for each in wanted):
            return ending.at
    return None


def _grace(job: Job) -> timedelta:
    """The containers of a task may have graces of their own."""
    return job.spec.stop_grace if job.spec.task is None and job.spec.nodes is None else STOP_ALLOWANCE


def _start(aside: Reservation) -> datetime:
    assert aside.starts is not None, "nobody knows when it starts"
    return aside.starts


def _add(kept: dict[Dimension, int], amounts: Amounts) -> None:
    for of, amount in amounts.items():
        kept[of] = kept.get(of, 0) + amount
