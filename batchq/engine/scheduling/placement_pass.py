"""The part of a unit of work that fills free room.

Queues of higher priority come first; of equal priority, the oldest job. The first of a queue that does not fit is its
head: what it needs is set aside, and a few behind it are looked at that would not delay it. One whose account is at a
limit holds back nobody else: with the first of them all jobs of that account are passed over, in every queue.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from itertools import groupby

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import JobQueue, State
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Status
from batchq.domain.scheduling.capacity import Candidate, Fits, FreeCapacity, Misfit, Waits, candidate
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse, active_shares, most_held
from batchq.domain.scheduling.quotas import Closed
from batchq.engine.scheduling.catalog_view import CatalogView
from batchq.engine.scheduling.queue_cache import Ahead
from batchq.engine.scheduling.queue_reader import Skip, Waiting
from batchq.engine.scheduling.queue_search import NO_SEARCH, Position, Searches
from batchq.engine.unit_of_work import UnitOfWork
from batchq.ports.jobs import JobStore

MOST_FOUND = 500  # jobs that one unit of work places or sets aside
MOST_LOOKED_AT = (
    64  # jobs behind the head of a queue, in one unit of work; those that are like one that did not fit are free
)
MOST_READ = 128  # jobs behind the head of a queue, in one unit of work, those among them
MOST_SEARCHED = 512  # jobs of a queue that one search reads
SEARCH_PAGE = 64
MISFIT_PAGE = 500


QueueSlot = QueueName | tuple[QueueName, AccountName]
"""Where somebody stands first: in a queue, or in it among the jobs of an account that is at its limit."""


class Head(Struct, frozen=True, kw_only=True):
    """The first job of a queue that does not fit, and why."""

    job_id: JobId
    order: int
    reason: str


class Filled(Struct, frozen=True, kw_only=True):
    """`finished` is false where it stopped at what one unit of work may do; then `heads` are not all.

    `full`: queues behind whose head, of this order, nobody can start before something else ends. `through`: who stood
    in the queues all of which was read. `cut`: queues that were left though there is room, with the last order that was
    looked at; so many jobs started that it is `worthwhile` to go on at once. `searches`: as the unit leaves them.
    """

    finished: bool
    heads: Mapping[QueueSlot, Head]
    full: Mapping[QueueName, int]
    through: Mapping[QueueName, Sequence[Candidate]]
    cut: Mapping[QueueName, int] = field(default_factory=dict)
    searches: Searches = field(default_factory=dict)
    worthwhile: bool = False


NOBODY_WAITS = Filled(finished=True, heads={}, full={}, through={})


class Allowance(Struct, kw_only=True):
    """What the jobs of a queue hold, and the most they may. One may always be placed, or none ever would."""

    held: int
    most: int

    def allows(self, millicpus: int) -> bool:
        return self.held == 0 or self.held + millicpus <= self.most


class Line(Struct, kw_only=True):
    """A queue's jobs as they are offered. `next` is None when no more are."""

    queue: JobQueue
    waiting: AsyncIterator[Candidate]
    allowance: Allowance | None
    next: Candidate | None = None
    head: Head | None = None
    looked_at: int = 0
    read: int = 0
    last: int = -1


Found = tuple[JobId, on.Placed | on.FoundMisfit]


class Filling(Struct, frozen=True, kw_only=True):
    """Offers one line after another to a room."""

    unit: UnitOfWork
    waiting: Waiting
    ground: CatalogView
    room: FreeCapacity
    uses: Mapping[ShareKey, ShareUse]
    closed: Closed
    found: list[Found] = field(default_factory=list)
    at_limit: dict[QueueSlot, Head] = field(default_factory=dict)
    cut: dict[QueueName, Line] = field(default_factory=dict)
    offered: set[JobId] = field(default_factory=set)

    @property
    def full(self) -> bool:
        return len(self.found) >= MOST_FOUND

    @property
    def over(self) -> bool:
        """Also where a line gave up: what it did not get to comes before all that is left."""
        return self.full or self.waiting.gave_up

    async def fill(self) -> dict[QueueSlot, Head]:
        """Offer the front of each queue, those of higher priority first. The answer is their heads."""
        heads: dict[QueueSlot, Head] = {}
        by_priority = sorted(self.ground.queues.values(), key=lambda it: (-it.priority, it.name))
        for _, queues in groupby(by_priority, key=lambda it: it.priority):
            if not self.over:
                heads |= await self.fill_from(tuple(queues))
        return heads

    async def search_all(self, searches: Searches) -> Searches:
        """Take these searches further; the answer is where they go on, without those that are over."""
        searched: dict[QueueName, Position | None] = dict(searches)
        for name, position in searches.items():
            if name in self.cut and not self.over:
                searched[name] = await self.search(self.cut[name], position)
        return {name: it for name, it in searched.items() if it is not None}

    async def fill_from(self, queues: Sequence[JobQueue]) -> dict[QueueSlot, Head]:
        """Offer the queues' jobs, merged by order, until each queue is through."""
        lines = [self._line(queue) for queue in queues]
        for line in lines:
            line.next = await anext(line.waiting, None)
        while not self.over and (ready := [line for line in lines if line.next is not None]):
            line = min(ready, key=_order)
            line.next = await anext(line.waiting, None) if self._goes_on(line) else None
        return {line.queue.name: line.head for line in lines if line.head is not None}

    def _goes_on(self, line: Line) -> bool:
        """Offer the next of a line; whether another may come after it."""
        job = line.next
        assert job is not None, f"{line.queue.name} is through"
        if self._passed_over(line, job):
            return True
        if self._kept_back(line, job):
            line.head = line.head or _head(job, status_reasons.KEPT_FOR_SHARES)
            return False
        is_head = line.head is None
        known = self._offer(line, job)
        self.offered.add(job.job_id)
        if line.head is None:
            return True
        line.read += not is_head
        line.looked_at += not known
        if self.room.closed(line.queue.environments):
            return False
        if line.looked_at <= MOST_LOOKED_AT and line.read < MOST_READ:
            return True
        line.last = job.order if line.queue.policy is None else -1
        self.cut[line.queue.name] = line
        return False

    async def search(self, line: Line, position: Position) -> Position | None:
        """Offer more jobs of a queue that was left; where to go on, None at the end."""
        line.read = line.looked_at = 0
        while line.read < MOST_SEARCHED and line.looked_at < MOST_LOOKED_AT:
            page = await self.waiting.after(line.queue.name, position.after, SEARCH_PAGE)
            for job in page:
                if self.full or (position.until is not None and job.order > position.until):
                    return position if self.full else None
                self._offer_found(line, job)
                position = replace(position, after=job.order)
            if len(page) < SEARCH_PAGE:
                return position.from_front()
            position = replace(position, after=self.waiting.skipped_to(position.after))
        return position

    def _offer_found(self, line: Line, job: Candidate) -> None:
        """One that a search found makes no head: a job before it is."""
        line.read += 1
        if job.job_id in self.offered or not (self.waiting.is_offered(job) and self.waiting.may_start(job)):
            return
        account = self.room.at_limit(job, line.queue.environments)
        if account is not None:
            self.closed.close(account)
        elif not self._kept_back(line, job):
            line.looked_at += not self._offer(line, job)

    def _passed_over(self, line: Line, job: Candidate) -> bool:
        """Whether its account, or one above, may not start another. Then none of it starts before this one."""
        account = self.room.at_limit(job, line.queue.environments)
        if account is not None:
            self.closed.close(account)
            self.at_limit.setdefault((line.queue.name, account), _head(job, status_reasons.at_limit(account)))
        return self.closed.has(job.account)

    def _kept_back(self, line: Line, job: Candidate) -> bool:
        """Whether what it would take is kept for shares to come. Not of a misfit, which is to be found out."""
        if line.allowance is None or line.allowance.allows(job.resources.millicpus):
            return False
        return self.room.could_hold(job, line.queue.environments)

    def _offer(self, line: Line, job: Candidate) -> bool:
        """Whether it was known beforehand that it does not fit."""
        offer = self.room.offer if line.head is None else self.room.squeeze
        match offer(job, line.queue.environments):
            case Fits(environment=name):
                self.found.append((job.job_id, on.Placed(environment=name)))
                if line.allowance is not None:
                    line.allowance.held += job.resources.millicpus
            case Misfit(reason=reason):
                self.found.append((job.job_id, on.FoundMisfit(reason=reason)))
            case Waits(reason=reason, known=known):
                line.head = line.head or _head(job, reason)
                return known
        return False

    def _line(self, queue: JobQueue) -> Line:
        policy = None if queue.policy is None else self.ground.policies.get(queue.policy)
        if policy is None:
            return Line(queue=queue, waiting=self.waiting.in_order(queue.name), allowance=None)
        waiting = self.waiting.in_turns(queue.name, policy, self.uses)
        if policy.reservation == 0:
            return Line(queue=queue, waiting=waiting, allowance=None)
        allowance = Allowance(
            held=sum(use.millicpus for key, use in self.uses.items() if key.queue == queue.name),
            most=most_held(
                policy,
                active=active_shares(self.uses, queue.name),
                max_millicpus=sum(
                    it.max_millicpus
                    for name in queue.environments
                    if (it := self.ground.environments.get(name)) is not None and it.state is State.ENABLED
                ),
            ),
        )
        return Line(queue=queue, waiting=waiting, allowance=allowance)


def _filling(
    unit: UnitOfWork,
    ahead: Ahead,
    ground: CatalogView,
    *,
    room: FreeCapacity,
    uses: Mapping[ShareKey, ShareUse],
    skip: Skip,
    nobody: Collection[QueueName],
) -> Filling:
    closed = Closed(room.quotas)
    waiting = Waiting(unit, ahead, skip, closed, nobody=nobody)
    return Filling(unit=unit, waiting=waiting, ground=ground, room=room, uses=uses, closed=closed)


async def blocked_heads(
    unit: UnitOfWork,
    ahead: Ahead,
    ground: CatalogView,
    *,
    room: FreeCapacity,
    uses: Mapping[ShareKey, ShareUse],
    skip: Skip,
) -> tuple[JobId, ...]:
    """The jobs that would be heads if the room were filled now; nothing is placed."""
    heads = await _filling(unit, ahead, ground, room=room, uses=uses, skip=skip, nobody=()).fill()
    return tuple(it.job_id for it in heads.values())


async def fill_room(
    unit: UnitOfWork,
    ahead: Ahead,
    ground: CatalogView,
    *,
    room: FreeCapacity,
    uses: Mapping[ShareKey, ShareUse],
    skip: Skip,
    nobody: Collection[QueueName],
    searches: Searches = NO_SEARCH,
) -> Filled:
    """Place RUNNABLE jobs until none fits that may. Those in `skip` may not, and in queues with `nobody` none waits.

    After the front of each queue comes what `searches` reads behind it.
    """
    filling = _filling(unit, ahead, ground, room=room, uses=uses, skip=skip, nobody=nobody)
    heads = await filling.fill()
    searched = await filling.search_all(searches)
    unknown = [job_id for job_id, _ in filling.found if not unit.knows(job_id)]
    if unknown:
        unit.load((await ahead.jobs(unknown)).values())
    found = [(job_id, event) for job_id, event in filling.found if _waits(unit, job_id)]
    for job_id, event in found:
        unit.step(job_id, event)
    finished = not filling.over and len(found) == len(filling.found)
    full = _full(heads, room, ground) if finished else {}
    return Filled(
        finished=finished,
        heads=heads | filling.at_limit,
        full=full,
        through=filling.waiting.through,
        cut={name: line.last for name, line in filling.cut.items()},
        searches=searched,
        worthwhile=bool(filling.cut) and len(found) >= MOST_LOOKED_AT // 2,
    )


def _full(heads: Mapping[QueueSlot, Head], room: FreeCapacity, ground: CatalogView) -> dict[QueueName, int]:
    """Only of queues where who comes last is last: by shares, or where accounts have limits, he may be a head."""
    if room.quotas.limited:
        return {}
    queues = ((ground.queues.get(place), head) for place, head in heads.items() if isinstance(place, str))
    in_order = ((queue, head) for queue, head in queues if queue is not None and queue.policy is None)
    return {queue.name: head.order for queue, head in in_order if room.full(queue.environments)}


async def free_misfits(
    unit: UnitOfWork, store: JobStore, ground: CatalogView, *, room: FreeCapacity, after: int
) -> int | None:
    """A page of misfits, from the first above `after`: those that could now be held are misfits no longer.

    The answer is the order to go on behind, None after the last.
    """
    page = await store.misfits(MISFIT_PAGE, after)
    unit.load(page)
    for job in filter(None, [unit.get(it.id) for it in page]):
        queue = ground.queues.get(job.spec.queue)
        if job.misfit and queue is not None and room.could_hold(candidate(job), queue.environments):
            unit.step(job.id, on.FoundFitting())
    return page[-1].order if len(page) == MISFIT_PAGE else None


def _waits(unit: UnitOfWork, job_id: JobId) -> bool:
    """One whose record was damaged was offered by its columns, and has failed since: another may have its room."""
    job = unit.get(job_id)
    return job is not None and job.status is Status.RUNNABLE


def _head(job: Candidate, reason: str) -> Head:
    return Head(job_id=job.job_id, order=job.order, reason=reason)


def _order(line: Line) -> int:
    assert line.next is not None, f"{line.queue.name} is through"
    return line.next.order
