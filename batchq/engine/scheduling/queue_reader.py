"""The jobs that wait, in the order they should start: the stored ones, with what the unit has changed laid over.

They are read from the store's indexes, a page at a time, no further than somebody asks.

Jobs that may not start now, though nothing else speaks against it.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Generic, TypeVar

from msgspec import Struct, field

from batchq.domain.catalog import SchedulingPolicy
from batchq.domain.ids import QueueName
from batchq.domain.intervals import IntervalSet
from batchq.domain.scheduling.capacity import Candidate, candidate, stands_in_line
from batchq.domain.scheduling.fairshare import Picker, ShareKey, ShareUse
from batchq.domain.scheduling.quotas import Closed
from batchq.engine.unit_of_work import UnitOfWork
from batchq.ports.queue import QueueReader


class Skip(Struct, frozen=True, kw_only=True):
    """Both as orders of jobs."""

    #: Children to which an order to their array has not been applied yet.
    children: IntervalSet = field(default_factory=IntervalSet)
    #: Jobs that a bulk stop under way will stop.
    meant: IntervalSet = field(default_factory=IntervalSet)

    def has(self, it: Candidate) -> bool:
        return it.order in self.children or it.order in self.meant

    def end(self, order: int) -> int:
        """The last of the jobs from this one on that are skipped; itself where it is not."""
        return self.meant.end(self.children.end(order))


Place = TypeVar("Place", int, tuple[int, int])

Read = Callable[[int, Place | None], Awaitable[tuple[Candidate, ...]]]

FIRST_PAGE, PAGE = 8, 64

MOST_PASSED = 1000  # jobs of a line that may not start

_order = attrgetter("order")


class Waiting:
    """What waits, as the unit of work leaves it. Those in `skip` may not start.

    `gave_up`: so many of them stand in a line that what is behind them was not looked at: then nothing that comes
    after it may start either. Nor may those of accounts
    that are `closed`, which may become more meanwhile: they are passed over there, however many there are.
    In queues with `nobody` none is asked for. `through` is who stands in those that were read as a whole.
    """

    def __init__(
        self, unit: UnitOfWork, lines: QueueReader, skip: Skip, closed: Closed, *, nobody: Collection[QueueName] = ()
    ) -> None:
        self._unit = unit
        self._lines = lines
        self._skip = skip
        self._closed = closed
        self._nobody = nobody
        self.gave_up = False
        self.through: dict[QueueName, tuple[Candidate, ...]] = {}
        self._changed: dict[QueueName, dict[str | None, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
        self._touched: dict[QueueName, int] = {}
        self._orders: list[int] = []
        for before, after in unit.pairs():
            if stands_in_line(after):
                self._changed[after.spec.queue][after.spec.share_identifier].append(candidate(after))
            if before is not None and stands_in_line(before):
                self._touched[after.spec.queue] = self._touched.get(after.spec.queue, 0) + 1
                self._orders.append(after.order)

    def in_order(self, queue: QueueName) -> AsyncIterator[Candidate]:
        """First in, first out."""
        changed = [it for each in self._changed[queue].values() for it in each]

        async def read(limit: int, after: int | None) -> tuple[Candidate, ...]:
            if self._closed.everybody or queue in self._nobody:
                return ()
            first = -1 if after is None else after
            page = await self._lines.runnable(queue, limit, first, beside=self._closed.names)
            if after is None and len(page) < limit and not self._closed.names:
                self.through[queue] = page
            return page

        def place(it: Candidate) -> int:
            return self.skipped_to(it.order)

        return self._lay_over(_Pages(read, place, self._first(queue)), changed, _order)

    async def after(self, queue: QueueName, order: int, limit: int) -> tuple[Candidate, ...]:
        """Those in the store above this order that this unit has not changed, at most so many; whatever its policy."""
        return await self._lines.runnable(queue, limit, order, beside=self._closed.names)

    async def in_turns(
        self, queue: QueueName, policy: SchedulingPolicy | None, uses: Mapping[ShareKey, ShareUse]
    ) -> AsyncIterator[Candidate]:
        """The shares of a queue in turns, as the policy gives them out."""
        stored = () if queue in self._nobody else await self._lines.waiting_shares(queue)
        if not stored:
            self.through[queue] = ()
        shares = {*stored, *(it for it in self._changed[queue] if it is not None)}
        now = self._unit.now
        known = {it: uses.get(ShareKey(queue, it)) or ShareUse(as_of=now) for it in sorted(shares)}
        picker = Picker(uses=known, policy=policy, now=now)
        lines: dict[str, AsyncIterator[Candidate]] = {}
        while (share := picker.next) is not None:
            line = lines.setdefault(share, self._in_share(queue, share))
            first = await anext(line, None)
            if first is None:
                picker.drop()
            else:
                picker.took(first.resources.millicpus)
                yield first

    def _in_share(self, queue: QueueName, share: str) -> AsyncIterator[Candidate]:
        async def read(limit: int, after: tuple[int, int] | None) -> tuple[Candidate, ...]:
            if self._closed.everybody or queue in self._nobody:
                return ()
            return await self._lines.runnable_in_share(queue, share, limit, after, beside=self._closed.names)

        def place(it: Candidate) -> tuple[int, int]:
            return it.priority, self._skip.end(it.order)

        return self._lay_over(_Pages(read, place, FIRST_PAGE), self._changed[queue][share], _rank)

    def _lay_over(
        self, stored: "_Pages[Place]", changed: list[Candidate], rank: Callable[[Candidate], Place]
    ) -> AsyncIterator[Candidate]:
        mine = sorted((it for it in changed if self.may_start(it)), key=rank, reverse=True)
        return _Line(self, stored, mine, rank)

    @cached_property
    def _gone(self) -> IntervalSet:
        """The orders of those that the turn has changed, for whom reads on: most lines end on their first page."""
        return IntervalSet([(order, order) for order in self._orders])

    def is_offered(self, other: Candidate) -> bool:
        """Of one that is stored: the unit of work has not changed it, and its account's are not passed over."""
        return not self._unit.touched(other.job_id) and not self._closed.has(other.account)

    def may_start(self, it: Candidate) -> bool:
        return not self._skip.has(it)

    def skipped_to(self, order: int) -> int:
        """The last order from this one on that is passed over."""
        return self._gone.end(self._skip.end(order))

    def _first(self, queue: QueueName) -> int:
        """So many that some are left when those are passed over that the unit has changed, if they stand in front.

        Of very many a few will do: they mostly follow on each other, and the next page begins behind them.
        """
        touched = self._touched.get(queue, 0)
        return FIRST_PAGE + (touched if touched <= PAGE else 0)


# Iterators of their own, not generators: one that is left before its end, as most are, has the event loop close it.


class _Pages(Generic[Place]):
    """Those in the store, read as they are asked for."""

    def __init__(self, read: "Read[Place]", place: Callable[[Candidate], Place], first: int) -> None:
        self._read: Read[Place] = read
        self._place: Callable[[Candidate], Place] = place
        self._limit = first
        self._last: Candidate | None = None
        self._page: Iterator[Candidate] = iter(())
        self._ends = False

    async def next(self) -> Candidate | None:
        found = next(self._page, None)
        if found is not None or self._ends:
            return found
        page = await self._read(self._limit, None if self._last is None else self._place(self._last))
        self._ends = len(page) < self._limit
        if page:
            self._last, self._limit = page[-1], PAGE
        self._page = iter(page)
        return next(self._page, None)


class _Line(Generic[Place]):
    """Those, and before each of them the ones of the unit of work's that come first."""

    def __init__(
        self, waiting: Waiting, stored: _Pages[Place], mine: list[Candidate], rank: Callable[[Candidate], Place]
    ) -> None:
        self._waiting = waiting
        self._stored: _Pages[Place] = stored
        self._mine = mine
        self._rank: Callable[[Candidate], Place] = rank
        self._other: Candidate | None = None
        self._passed = 0

    def __aiter__(self) -> AsyncIterator[Candidate]:
        return self

    async def __anext__(self) -> Candidate:
        while self._passed < MOST_PASSED:
            other = self._other or await self._stored.next()
            if self._mine and (other is None or self._rank(self._mine[-1]) < self._rank(other)):
                self._other = other
                return self._mine.pop()
            self._other = None
            if other is None:
                raise StopAsyncIteration
            if self._waiting.is_offered(other):
                if self._waiting.may_start(other):
                    return other
                self._passed += 1
        self._waiting.gave_up = True
        raise StopAsyncIteration


def _rank(it: Candidate) -> tuple[int, int]:
    """Within a share: the highest priority first, then the oldest."""
    return -it.priority, it.order
