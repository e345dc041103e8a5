"""The placement pass of a unit of work: places RUNNABLE jobs on free capacity.

Queues of higher priority come first; among queues of equal priority, the oldest job. The first job of a queue that does
not fit is the queue's head: capacity is reserved for it, and a limited number of jobs behind it are placed if they do
not delay it (backfill). A job whose account is at a limit does not block other accounts: all jobs of that account are
passed over, in every queue.
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

MOST_FOUND = 500  # jobs that one unit of work places or marks as unschedulable
MOST_LOOKED_AT = (
    64  # jobs tried behind the head of a queue in one unit of work, not counting repeats of a demand that did not fit
)
MOST_READ = 128  # jobs read behind the head of a queue in one unit of work, repeats included
MOST_SEARCHED = 512  # jobs of a queue that one search reads
SEARCH_PAGE = 64
MISFIT_PAGE = 500


QueueSlot = QueueName | tuple[QueueName, AccountName]
"""The place of a head: a queue, or a queue and the account whose limit blocks the job."""


class Head(Struct, frozen=True, kw_only=True):
    """The first job of a queue that does not fit."""

    job_id: JobId
    order: int
    #: The status reason to be shown.
    reason: str


class Filled(Struct, frozen=True, kw_only=True):
    """The result of a placement pass."""

    #: False if the pass stopped at a limit of the unit of work; then `heads` is incomplete.
    finished: bool
    #: The heads by place.
    heads: Mapping[QueueSlot, Head]
    #: Queues in which no job behind the head can start before a running job ends, with the head's order.
    full: Mapping[QueueName, int]
    #: The waiting jobs of each queue that was read completely.
    through: Mapping[QueueName, Sequence[Candidate]]
    #: Queues that the pass left although capacity is free, with the order of the last job that was tried.
    cut: Mapping[QueueName, int] = field(default_factory=dict)
    #: The positions of the searches behind heads after the pass.
    searches: Searches = field(default_factory=dict)
    #: Whether so many jobs were placed that another pass should follow at once.
    worthwhile: bool = False


NOBODY_WAITS = Filled(finished=True, heads={}, full={}, through={})


class Allowance(Struct, kw_only=True):
    """The vCPUs that the jobs of a fair-share queue hold, and the maximum that computeReservation leaves to them."""

    #: In thousandths of a vCPU.
    held: int
    #: In thousandths of a vCPU.
    most: int

    def allows(self, millicpus: int) -> bool:
        """Whether a job of this size may be placed.

        The first job always may; otherwise a large job would never start.
        """
        return self.held == 0 or self.held + millicpus <= self.most


class Line(Struct, kw_only=True):
    """The waiting jobs of a queue during a placement pass."""

    queue: JobQueue
    waiting: AsyncIterator[Candidate]
    #: The limit by computeReservation; None without one.
    allowance: Allowance | None
    #: The job to be tried next; None when the queue is done.
    next: Candidate | None = None
    head: Head | None = None
    #: How many jobs behind the head were tried, not counting repeats of a demand that did not fit.
    looked_at: int = 0
    #: How many jobs behind the head were read.
    read: int = 0
    #: Where a search continues: the order of the last job that was tried; -1 for the front of the queue.
    last: int = -1


Found = tuple[JobId, on.Placed | on.FoundUnschedulable]


class Filling(Struct, frozen=True, kw_only=True):
    """The state of one placement pass."""

    unit: UnitOfWork
    waiting: Waiting
    ground: CatalogView
    #: The capacity that is free.
    room: FreeCapacity
    uses: Mapping[ShareKey, ShareUse]
    #: The accounts whose jobs are passed over.
    closed: Closed
    #: The placements and the unschedulable jobs so far.
    found: list[Found] = field(default_factory=list)
    #: The first job of each queue that an account's limit blocks.
    at_limit: dict[QueueSlot, Head] = field(default_factory=dict)
    #: The queues that the pass left although capacity is free.
    cut: dict[QueueName, Line] = field(default_factory=dict)
    #: The jobs that were tried.
    offered: set[JobId] = field(default_factory=set)

    @property
    def full(self) -> bool:
        return len(self.found) >= MOST_FOUND

    @property
    def over(self) -> bool:
        """Whether the pass must end, also because a queue gave up: its unread jobs come before all remaining jobs."""
        return self.full or self.waiting.gave_up

    async def fill(self) -> dict[QueueSlot, Head]:
        """Try the first jobs of each queue, by priority. Returns the heads."""
        heads: dict[QueueSlot, Head] = {}
        by_priority = sorted(self.ground.queues.values(), key=lambda it: (-it.priority, it.name))
        for _, queues in groupby(by_priority, key=lambda it: it.priority):
            if not self.over:
                heads |= await self.fill_from(tuple(queues))
        return heads

    async def search_all(self, searches: Searches) -> Searches:
        """Continue the searches in queues that this pass has left. Returns the searches that are not finished."""
        searched: dict[QueueName, Position | None] = dict(searches)
        for name, position in searches.items():
            if name in self.cut and not self.over:
                searched[name] = await self.search(self.cut[name], position)
        return {name: it for name, it in searched.items() if it is not None}

    async def fill_from(self, queues: Sequence[JobQueue]) -> dict[QueueSlot, Head]:
        """Try the jobs of queues of equal priority, merged by order, until each queue is done. Returns the heads."""
        lines = [self._line(queue) for queue in queues]
        for line in lines:
            line.next = await anext(line.waiting, None)
        while not self.over and (ready := [line for line in lines if line.next is not None]):
            line = min(ready, key=_order)
            line.next = await anext(line.waiting, None) if self._goes_on(line) else None
        return {line.queue.name: line.head for line in lines if line.head is not None}

    def _goes_on(self, line: Line) -> bool:
        """Try the next job of a queue; whether to continue with the queue."""
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
        """Try further jobs behind the head of a queue. Returns where to continue, None when the search is finished."""
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
        """Try a job that a search read. It does not become a head: another job precedes it."""
        line.read += 1
        if job.job_id in self.offered or not (self.waiting.is_offered(job) and self.waiting.may_start(job)):
            return
        account = self.room.at_limit(job, line.queue.environments)
        if account is not None:
            self.closed.close(account)
        elif not self._kept_back(line, job):
            line.looked_at += not self._offer(line, job)

    def _passed_over(self, line: Line, job: Candidate) -> bool:
        """Whether the job's account, or one above it, is at a limit.

        From then on all jobs of that account are passed over.
        """
        account = self.room.at_limit(job, line.queue.environments)
        if account is not None:
            self.closed.close(account)
            self.at_limit.setdefault((line.queue.name, account), _head(job, status_reasons.at_limit(account)))
        return self.closed.has(job.account)

    def _kept_back(self, line: Line, job: Candidate) -> bool:
        """Whether the job would take vCPUs that the policy reserves for shares that are not active yet.

        False for a job that no environment could ever hold, so that it is found to be unschedulable.
        """
        if line.allowance is None or line.allowance.allows(job.resources.millicpus):
            return False
        return self.room.could_hold(job, line.queue.environments)

    def _offer(self, line: Line, job: Candidate) -> bool:
        """Place the job if it fits, else make it the head of its queue.

        Returns whether an equal demand had already failed to fit.
        """
        offer = self.room.offer if line.head is None else self.room.squeeze
        match offer(job, line.queue.environments):
            case Fits(environment=name):
                self.found.append((job.job_id, on.Placed(environment=name)))
                if line.allowance is not None:
                    line.allowance.held += job.resources.millicpus
            case Misfit(reason=reason):
                self.found.append((job.job_id, on.FoundUnschedulable(reason=reason)))
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
    """The jobs that would be heads after a placement pass now. Places nothing."""
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
    """Place RUNNABLE jobs until no further job can be placed.

    The jobs in `skip` are not placed. The queues in `nobody` have no waiting stored jobs and are not read. After the
    front of each queue, `searches` continue behind the heads.
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
    """Queues in which a job added at the end cannot start, with their head's order.

    Without fair-share queues, and empty if any account has limits: there a later job may become a head.
    """
    if room.quotas.limited:
        return {}
    queues = ((ground.queues.get(place), head) for place, head in heads.items() if isinstance(place, str))
    in_order = ((queue, head) for queue, head in queues if queue is not None and queue.policy is None)
    return {queue.name: head.order for queue, head in in_order if room.full(queue.environments)}


async def free_misfits(
    unit: UnitOfWork, store: JobStore, ground: CatalogView, *, room: FreeCapacity, after: int
) -> int | None:
    """Re-examine a page of unschedulable jobs, those above the order `after`.

    A job that an environment could now hold becomes schedulable. Returns the order to continue after, None at the end.
    """
    page = await store.misfits(MISFIT_PAGE, after)
    unit.load(page)
    for job in filter(None, [unit.get(it.id) for it in page]):
        queue = ground.queues.get(job.spec.queue)
        if job.unschedulable and queue is not None and room.could_hold(candidate(job), queue.environments):
            unit.step(job.id, on.FoundSchedulable())
    return page[-1].order if len(page) == MISFIT_PAGE else None


def _waits(unit: UnitOfWork, job_id: JobId) -> bool:
    """Whether the job is RUNNABLE.

    A job whose record is damaged is offered by its columns but fails when it is loaded.
    """
    job = unit.get(job_id)
    return job is not None and job.status is Status.RUNNABLE


def _head(job: Candidate, reason: str) -> Head:
    return Head(job_id=job.job_id, order=job.order, reason=reason)


def _order(line: Line) -> int:
    assert line.next is not None, f"{line.queue.name} is through"
    return line.next.order
