"""Iterates over the waiting jobs of a queue in scheduling order: stored jobs merged with the unit of work's changes.

The jobs are read from the store's indexes a page at a time, no further than the placement pass needs. Jobs that a stop
order is about to reach are skipped.

A search continues behind a blocked head: a unit of work tries few jobs, later ones continue behind them. It passes each
job of a queue once after resources may have become free, in a circle. Later changes, at any rate, lengthen it by at
most one circle and never restart it at the front. Decision 0039.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Generic, TypeVar

from msgspec import Struct, field

from batchq.domain.budgets import BudgetScope, ExhaustedBudget
from batchq.domain.catalog import SchedulingPolicy
from batchq.domain.ids import QueueName
from batchq.domain.intervals import IntervalSet
from batchq.domain.scheduling.capacity import Candidate, candidate_of_job, is_queued_for_placement
from batchq.domain.scheduling.fairshare import ShareKey, SharePicker, ShareUse
from batchq.domain.scheduling.quotas import ClosedAccounts
from batchq.engine.unit_of_work import UnitOfWork
from batchq.ports.queue import QueueReader


class Exclusions(Struct, frozen=True, kw_only=True):
    """Jobs that must not be placed: a stop order is about to reach them, or their budget is used up."""

    #: Children to which an order of their array has not been applied yet, as intervals of `Job.sequence`.
    children: IntervalSet = field(default_factory=IntervalSet)
    #: Jobs that a bulk stop in progress will stop, as intervals of `Job.sequence`.
    bulk_stop_targets: IntervalSet = field(default_factory=IntervalSet)
    #: The budgets that let no job start. Their accounts and queues are closed, so `has` does not check them.
    exhausted: tuple[ExhaustedBudget, ...] = ()

    def closed(self, scope: BudgetScope) -> frozenset[str]:
        """The names of the accounts or queues whose budget is used up."""
        return frozenset([budget.key.name for budget in self.exhausted if budget.key.scope is scope])

    def has(self, candidate: Candidate) -> bool:
        return candidate.sequence in self.children or candidate.sequence in self.bulk_stop_targets

    def end(self, sequence: int) -> int:
        """The last of the consecutive skipped sequences from `sequence` on; `sequence` itself if it is not skipped."""
        return self.bulk_stop_targets.end(self.children.end(sequence))


Key = TypeVar("Key", int, tuple[int, int])
ReadPage = Callable[[int, Key | None], Awaitable[tuple[Candidate, ...]]]
FIRST_PAGE, PAGE = 8, 64
MAX_SKIPPED = 1000  # skipped jobs after which a queue gives up
_sequence = attrgetter("sequence")


class WaitingJobs:
    """The waiting jobs as the unit of work leaves them."""

    def __init__(
        self,
        unit: UnitOfWork,
        queues: QueueReader,
        skip: Exclusions,
        closed: ClosedAccounts,
        *,
        empty_queues: Collection[QueueName] = (),
    ) -> None:
        self._unit = unit
        self._queues = queues
        #: Jobs that must not be placed.
        self.skip = skip
        #: Accounts whose jobs are passed over, without a limit on their number. More may be added meanwhile.
        self._closed = closed
        #: Queues without waiting stored jobs, which are not read.
        self._empty_queues = empty_queues
        #: Whether a queue had so many skipped jobs that the jobs behind them were not read. Then no later job may
        #: start.
        self.gave_up = False
        #: The jobs of the queues that were read completely.
        self.complete_queues: dict[QueueName, tuple[Candidate, ...]] = {}
        #: By queue and share, the waiting jobs that this unit of work has changed.
        self._changed: dict[QueueName, dict[str | None, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
        #: By queue, the number of stored waiting jobs that this unit of work has changed.
        self._touched: dict[QueueName, int] = {}
        #: The sequences of those jobs.
        self._sequences: list[int] = []
        for before, after in unit.job_changes:
            if is_queued_for_placement(after):
                self._changed[after.spec.queue][after.spec.share_identifier].append(candidate_of_job(after))
            if before is not None and is_queued_for_placement(before):
                self._touched[after.spec.queue] = self._touched.get(after.spec.queue, 0) + 1
                self._sequences.append(after.sequence)

    def in_order(self, queue: QueueName) -> AsyncIterator[Candidate]:
        """The jobs of a queue without a scheduling policy, first in, first out."""
        changed = [candidate for each in self._changed[queue].values() for candidate in each]

        async def read(limit: int, after: int | None) -> tuple[Candidate, ...]:
            if queue in self._empty_queues or self._closed.everyone:
                return ()
            first = -1 if after is None else after
            page = await self._queues.runnable(queue, limit, first, excluding=self._closed.names)
            if after is None and len(page) < limit and not self._closed.names:
                self.complete_queues[queue] = page
            return page

        def place(candidate: Candidate) -> int:
            return self.skipped_to(candidate.sequence)

        return self._merge(_Pages(read, place, self._first_page(queue)), changed, _sequence)

    async def after(self, queue: QueueName, sequence: int, limit: int) -> tuple[Candidate, ...]:
        """The first `limit` stored jobs of the queue above `sequence`, by sequence, whatever the queue's policy.

        Jobs of closed accounts are left out.
        """
        return await self._queues.runnable(queue, limit, sequence, excluding=self._closed.names)

    async def in_share_order(
        self, queue: QueueName, policy: SchedulingPolicy | None, usage: Mapping[ShareKey, ShareUse]
    ) -> AsyncIterator[Candidate]:
        """The jobs of a fair-share queue, taking shares in turns as the policy decides."""
        stored = () if queue in self._empty_queues else await self._queues.waiting_shares(queue)
        if not stored:
            self.complete_queues[queue] = ()
        shares = {*stored, *(text for text in self._changed[queue] if text is not None)}
        now = self._unit.now
        known = {share: usage.get(ShareKey(queue, share)) or ShareUse(as_of=now) for share in sorted(shares)}
        picker = SharePicker(uses=known, policy=policy, now=now)
        by_share: dict[str, AsyncIterator[Candidate]] = {}
        while (share := picker.next) is not None:
            jobs = by_share.setdefault(share, self._in_share(queue, share))
            first = await anext(jobs, None)
            if first is None:
                picker.drop()
            else:
                picker.charge(first.resources.millicpus)
                yield first

    def _in_share(self, queue: QueueName, share: str) -> AsyncIterator[Candidate]:
        async def read(limit: int, after: tuple[int, int] | None) -> tuple[Candidate, ...]:
            if self._closed.everyone or queue in self._empty_queues:
                return ()
            return await self._queues.runnable_in_share(queue, share, limit, after, excluding=self._closed.names)

        def place(candidate: Candidate) -> tuple[int, int]:
            return candidate.priority, self.skip.end(candidate.sequence)

        return self._merge(_Pages(read, place, FIRST_PAGE), self._changed[queue][share], _rank)

    def _merge(
        self, stored: "_Pages[Key]", changed: list[Candidate], rank: Callable[[Candidate], Key]
    ) -> AsyncIterator[Candidate]:
        eligible = sorted([item for item in changed if not self.skip.has(item)], key=rank, reverse=True)
        return _MergedJobs(self, stored, eligible, rank)

    @cached_property
    def _changed_sequences(self) -> IntervalSet:
        """The sequences of the stored jobs that the unit of work has changed.

        Computed only when a second page is read: most queues end on their first page.
        """
        return IntervalSet([(sequence, sequence) for sequence in self._sequences])

    def is_unchanged(self, other: Candidate) -> bool:
        """Whether a stored job is unchanged by this unit of work and its account is not passed over."""
        return not self._unit.touched(other.job_id) and not self._closed.has(other.account)

    def skipped_to(self, sequence: int) -> int:
        """The last of the skipped or changed sequences from `sequence` on; `sequence` itself if there is none."""
        return self._changed_sequences.end(self.skip.end(sequence))

    def _first_page(self, queue: QueueName) -> int:
        """The number of stored jobs in the first page: FIRST_PAGE, and one for each changed job of the queue.

        Changed jobs are left out of the pages, so FIRST_PAGE jobs remain even if all of them are at the front. For more
        than PAGE changed jobs none are added: they are mostly consecutive, and the next page begins after them.
        """
        touched = self._touched.get(queue, 0)
        return FIRST_PAGE + (touched if touched <= PAGE else 0)


# Classes, not async generators: the event loop must close every generator that is left before its end.
class _Pages(Generic[Key]):
    """The stored jobs, read a page at a time."""

    def __init__(self, read: "ReadPage[Key]", key: Callable[[Candidate], Key], first: int) -> None:
        self._read: ReadPage[Key] = read
        self._key: Callable[[Candidate], Key] = key
        self._limit = first
        self._last: Candidate | None = None
        self._page: Iterator[Candidate] = iter(())
        self._ends = False

    async def next(self) -> Candidate | None:
        found = next(self._page, None)
        if found is not None or self._ends:
            return found
        page = await self._read(self._limit, None if self._last is None else self._key(self._last))
        self._ends = len(page) < self._limit
        if page:
            self._last, self._limit = page[-1], PAGE
        self._page = iter(page)
        return next(self._page, None)


class _MergedJobs(Generic[Key]):
    """The stored jobs merged by rank with the jobs that the unit of work has changed."""

    def __init__(
        self, waiting: WaitingJobs, stored: _Pages[Key], changed: list[Candidate], rank: Callable[[Candidate], Key]
    ) -> None:
        self._waiting = waiting
        self._stored: _Pages[Key] = stored
        self._changed = changed
        self._rank: Callable[[Candidate], Key] = rank
        self._next_stored: Candidate | None = None
        self.skipped = 0

    def __aiter__(self) -> AsyncIterator[Candidate]:
        return self

    async def __anext__(self) -> Candidate:
        while self.skipped < MAX_SKIPPED:
            job = self._next_stored or await self._stored.next()
            if self._changed and (job is None or self._rank(self._changed[-1]) < self._rank(job)):
                self._next_stored = job
                return self._changed.pop()
            self._next_stored = None
            if job is None:
                raise StopAsyncIteration
            if self._waiting.is_unchanged(job):
                if not self._waiting.skip.has(job):
                    return job
                self.skipped += 1
        self._waiting.gave_up = True
        raise StopAsyncIteration


def _rank(candidate: Candidate) -> tuple[int, int]:
    """The rank within a share: the highest priority first, then the oldest."""
    return -candidate.priority, candidate.sequence


class QueueSearchPosition(Struct, frozen=True, kw_only=True):
    """The position of the search in one queue, in sequences of jobs."""

    #: The last job that was passed.
    after: int = -1
    #: The job at which the search ends; None: at the end of the queue.
    until: int | None = None
    #: The job up to which it continues from the front after the end of the queue; None: it ends there.
    wraps: int | None = None

    def from_front(self) -> "QueueSearchPosition | None":
        """The position at the end of the queue: back at the front, or None if the search is finished."""
        return None if self.wraps is None else QueueSearchPosition(until=self.wraps)

    def whole_circle(self) -> "QueueSearchPosition":
        """The search extended to one full circle from its present position."""
        return QueueSearchPosition(after=self.after, wraps=self.after)


Searches = Mapping[QueueName, QueueSearchPosition]
NO_SEARCH: Searches = {}


def next_searches(
    current: Searches, unread: Mapping[QueueName, int], changed: Mapping[QueueName, int], *, capacity_freed: bool
) -> Searches:
    """The searches after a unit of work.

    `current`: the searches as this unit left them, without finished ones. `unread`: queues with free capacity and more
    jobs behind the head than one unit tries, with the last job that was tried. `changed`: by queue, the lowest
    sequence of the jobs that entered or left RUNNABLE. `capacity_freed`: whether more resources may be free.
    """
    positions = {}
    for queue, last in unread.items():
        position, first = current.get(queue), changed.get(queue)
        if position is None and capacity_freed:
            positions[queue] = QueueSearchPosition(after=last)
        elif position is None and first is not None:
            positions[queue] = QueueSearchPosition(after=max(last, first - 1))
        elif position is not None:
            passed = first is not None and (first <= position.after or position.until is not None)
            positions[queue] = position.whole_circle() if capacity_freed or passed else position
    return positions
