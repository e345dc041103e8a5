"""The placement pass of a unit of work: places RUNNABLE jobs on free capacity.

Queues of higher priority come first; among queues of equal priority, the oldest job. The first job of a queue that does
not fit is the queue's head: capacity is reserved for it, and a limited number of jobs behind it are placed if they do
not delay it (backfill). A job whose account is at a limit does not block other accounts: all jobs of that account are
passed over, in every queue.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.access.accounts import AccountName
from batchq.domain.budgets import BudgetScope
from batchq.domain.catalog import JobQueue
from batchq.domain.enums import State, Status
from batchq.domain.ids import JobId, QueueName
from batchq.domain.scheduling.capacity import (
    Candidate,
    Fits,
    FreeCapacity,
    Insufficient,
    Unschedulable,
    candidate_of_job,
)
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse, active_shares, max_usable_millicpus
from batchq.domain.scheduling.quotas import ClosedAccounts
from batchq.engine.scheduling.queue_cache import QueueCache
from batchq.engine.scheduling.queue_reader import NO_SEARCH, Exclusions, QueueSearchPosition, Searches, WaitingJobs
from batchq.engine.unit_of_work import UnitOfWork
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import JobStore

MAX_DECISIONS = 500  # jobs that one unit of work places or marks as unschedulable
MAX_TRIED = (
    64  # jobs tried behind the head of a queue in one unit of work, not counting repeats of a demand that did not fit
)
MAX_READ = 128  # jobs read behind the head of a queue in one unit of work, repeats included
MAX_SEARCHED = 512  # jobs of a queue that one search reads
SEARCH_PAGE = 64
UNSCHEDULABLE_PAGE = 500


QueueSlot = QueueName | tuple[QueueName, AccountName]
"""The place of a head: a queue, or a queue and the account whose limit blocks the job."""


class Head(Struct, frozen=True, kw_only=True):
    """The first job of a queue that does not fit."""

    job_id: JobId
    sequence: int
    #: The status reason to be shown.
    reason: str


class PassResult(Struct, frozen=True, kw_only=True):
    """The result of a placement pass."""

    #: False if the pass stopped at a limit of the unit of work; then `heads` is incomplete.
    finished: bool
    #: The heads by slot.
    heads: Mapping[QueueSlot, Head]
    #: Queues in which no job behind the head can start before a running job ends, with the head's sequence.
    full_queues: Mapping[QueueName, int]
    #: The waiting jobs of each queue that was read completely.
    complete_queues: Mapping[QueueName, Sequence[Candidate]]
    #: Queues that the pass left although capacity is free, with the sequence of the last job that was tried.
    unread_queues: Mapping[QueueName, int] = field(default_factory=dict)
    #: The positions of the searches behind heads after the pass.
    searches: Searches = field(default_factory=dict)
    #: Whether so many jobs were placed that another pass should follow at once.
    repeat: bool = False


NOTHING_QUEUED = PassResult(finished=True, heads={}, full_queues={}, complete_queues={})


class ShareReservation(Struct, kw_only=True):
    """The vCPUs that the jobs of a fair-share queue hold, and the maximum that computeReservation leaves to them."""

    #: In thousandths of a vCPU.
    held: int
    #: In thousandths of a vCPU.
    max_held: int

    def allows(self, millicpus: int) -> bool:
        """Whether a job of this size may be placed.

        The first job always may; otherwise a large job would never start.
        """
        return self.held == 0 or self.held + millicpus <= self.max_held


class QueueCursor(Struct, kw_only=True):
    """The waiting jobs of a queue during a placement pass."""

    queue: JobQueue
    jobs: AsyncIterator[Candidate]
    #: The limit by computeReservation; None without one.
    reservation: ShareReservation | None
    #: The job to be tried next; None when the queue is done.
    next: Candidate | None = None
    head: Head | None = None
    #: How many jobs behind the head were tried, not counting repeats of a demand that did not fit.
    tried: int = 0
    #: How many jobs behind the head were read.
    read: int = 0
    #: Where a search continues: the sequence of the last job that was tried; -1 for the front of the queue.
    resume_after: int = -1


Decision = tuple[JobId, on.Placed | on.FoundUnschedulable]


class PlacementPass(Struct, frozen=True, kw_only=True):
    """The state of one placement pass."""

    unit: UnitOfWork
    queue_cache: QueueCache
    waiting: WaitingJobs
    catalog: CatalogView
    #: The capacity that is free.
    capacity: FreeCapacity
    usage: Mapping[ShareKey, ShareUse]
    #: The accounts whose jobs are passed over.
    closed_accounts: ClosedAccounts
    #: The placements and the unschedulable jobs so far.
    decisions: list[Decision] = field(default_factory=list)
    #: The first job of each queue that an account's limit blocks.
    at_limit: dict[QueueSlot, Head] = field(default_factory=dict)
    #: The queues that the pass left although capacity is free.
    unread_queues: dict[QueueName, QueueCursor] = field(default_factory=dict)
    #: The jobs that were tried.
    tried: set[JobId] = field(default_factory=set)

    async def run(self, searches: Searches = NO_SEARCH) -> PassResult:
        """Place RUNNABLE jobs until no further job can be placed.

        After the front of each queue, `searches` continue behind the heads.
        """
        heads = await self.place_all()
        remaining = await self.search_all(searches) if searches else NO_SEARCH
        await self.queue_cache.load_into(self.unit, [job_id for job_id, _ in self.decisions])
        decisions = [(job_id, event) for job_id, event in self.decisions if _is_runnable(self.unit, job_id)]
        for job_id, event in decisions:
            self.unit.step(job_id, event)
        finished = not self.must_end and len(decisions) == len(self.decisions)
        return PassResult(
            finished=finished,
            heads=heads | self.at_limit,
            full_queues=_full_queues(heads, self.capacity, self.catalog) if finished else {},
            complete_queues=self.waiting.complete_queues,
            unread_queues={name: cursor.resume_after for name, cursor in self.unread_queues.items()},
            searches=remaining,
            repeat=bool(self.unread_queues) and len(decisions) >= MAX_TRIED // 2,
        )

    @property
    def is_full(self) -> bool:
        return len(self.decisions) >= MAX_DECISIONS

    @property
    def must_end(self) -> bool:
        """Whether the pass must end, also because a queue gave up: its unread jobs come before all remaining jobs."""
        return len(self.decisions) >= MAX_DECISIONS or self.waiting.gave_up

    async def place_all(self) -> dict[QueueSlot, Head]:
        """Try the first jobs of each queue, by priority. Returns the heads. Changes no job before `run` does."""
        heads: dict[QueueSlot, Head] = {}
        closed = self.waiting.skip.closed(BudgetScope.QUEUE)
        open_queues = [
            queue for queue in self.catalog.queues.values() if not queue.drained and queue.name not in closed
        ]
        by_priority = sorted(open_queues, key=lambda queue: (-queue.priority, queue.name))
        for _, queues in groupby(by_priority, key=attrgetter("priority")):
            if not self.must_end:
                heads |= await self.place_from(tuple(queues))
        return heads

    async def search_all(self, searches: Searches) -> Searches:
        """Continue the searches in queues that this pass has left. Returns the searches that are not finished."""
        remaining: dict[QueueName, QueueSearchPosition | None] = dict(searches)
        for name, position in searches.items():
            if name in self.unread_queues and not self.must_end:
                remaining[name] = await self.search(self.unread_queues[name], position)
        return {name: position for name, position in remaining.items() if position is not None}

    async def place_from(self, queues: Sequence[JobQueue]) -> dict[QueueSlot, Head]:
        """Try the jobs of queues of equal priority, merged by sequence, until each queue is done. Returns the heads."""
        cursors = [self._cursor(queue) for queue in queues]
        for cursor in cursors:
            cursor.next = await anext(cursor.jobs, None)
        ready = [cursor for cursor in cursors if cursor.next is not None]
        while ready and not self.must_end:
            cursor = min(ready, key=attrgetter("next.sequence"))
            cursor.next = await anext(cursor.jobs, None) if self._try_next(cursor) else None
            if cursor.next is None:
                ready.remove(cursor)
        return {cursor.queue.name: cursor.head for cursor in cursors if cursor.head is not None}

    def _try_next(self, cursor: QueueCursor) -> bool:
        """Try the next job of a queue; whether to continue with the queue."""
        job = cursor.next
        assert job is not None, f"{cursor.queue.name} has no next job"
        if self._is_passed_over(cursor, job):
            return True
        if self._is_reserved(cursor, job):
            cursor.head = cursor.head or _head(job, status_reasons.KEPT_FOR_SHARES)
            return False
        is_head = cursor.head is None
        known = self._try(cursor, job)
        self.tried.add(job.job_id)
        if cursor.head is None:
            return True
        cursor.read += not is_head
        cursor.tried += not known
        if self.capacity.closed(cursor.queue.environments):
            return False
        if cursor.tried <= MAX_TRIED and cursor.read < MAX_READ:
            return True
        cursor.resume_after = job.sequence if cursor.queue.policy is None else -1
        self.unread_queues[cursor.queue.name] = cursor
        return False

    async def search(self, cursor: QueueCursor, position: QueueSearchPosition) -> QueueSearchPosition | None:
        """Try further jobs behind the head of a queue. Returns where to continue, None when the search is finished."""
        cursor.read = cursor.tried = 0
        while cursor.read < MAX_SEARCHED and cursor.tried < MAX_TRIED:
            page = await self.waiting.after(cursor.queue.name, position.after, SEARCH_PAGE)
            for job in page:
                if self.is_full or (position.until is not None and job.sequence > position.until):
                    return position if self.is_full else None
                self._try_searched(cursor, job)
                position = replace(position, after=job.sequence)
            if len(page) < SEARCH_PAGE:
                return position.from_front()
            position = replace(position, after=self.waiting.skipped_to(position.after))
        return position

    def _try_searched(self, cursor: QueueCursor, job: Candidate) -> None:
        """Try a job that a search read. It does not become a head: another job precedes it."""
        cursor.read += 1
        if job.job_id in self.tried or not (self.waiting.is_unchanged(job) and not self.waiting.skip.has(job)):
            return
        account = self.capacity.at_limit(job, cursor.queue.environments)
        if account is not None:
            self.closed_accounts.close(account)
        elif not self._is_reserved(cursor, job):
            cursor.tried += not self._try(cursor, job)

    def _is_passed_over(self, cursor: QueueCursor, job: Candidate) -> bool:
        """Whether the job's account, or one above it, is at a limit.

        From then on all jobs of that account are passed over.
        """
        account = self.capacity.at_limit(job, cursor.queue.environments)
        if account is not None:
            self.closed_accounts.close(account)
            self.at_limit.setdefault((cursor.queue.name, account), _head(job, status_reasons.at_limit(account)))
        return self.closed_accounts.has(job.account)

    def _is_reserved(self, cursor: QueueCursor, job: Candidate) -> bool:
        """Whether the job would take vCPUs that the policy reserves for shares that are not active yet.

        False for a job that no environment could ever hold, so that it is found to be unschedulable.
        """
        if cursor.reservation is None or cursor.reservation.allows(job.resources.millicpus):
            return False
        return self.capacity.could_hold(job, cursor.queue.environments)

    def _try(self, cursor: QueueCursor, job: Candidate) -> bool:
        """Place the job if it fits, else make it the head of its queue.

        Returns whether an equal demand had already failed to fit.
        """
        offer = self.capacity.place_or_reserve if cursor.head is None else self.capacity.place_if_no_delay
        match offer(job, cursor.queue.environments):
            case Fits(environment=name, machines=machines):
                self.decisions.append((job.job_id, on.Placed(environment=name, machines=machines)))
                if cursor.reservation is not None:
                    cursor.reservation.held += job.resources.millicpus
            case Unschedulable(reason=reason):
                self.decisions.append((job.job_id, on.FoundUnschedulable(reason=reason)))
            case Insufficient(reason=reason, known=known):
                cursor.head = cursor.head or _head(job, reason)
                return known
        return False

    def _cursor(self, queue: JobQueue) -> QueueCursor:
        policy = None if queue.policy is None else self.catalog.policies.get(queue.policy)
        if policy is None:
            return QueueCursor(queue=queue, jobs=self.waiting.in_order(queue.name), reservation=None)
        waiting = self.waiting.in_share_order(queue.name, policy, self.usage)
        if policy.reservation == 0:
            return QueueCursor(queue=queue, jobs=waiting, reservation=None)
        reservation = ShareReservation(
            held=sum(use.millicpus for key, use in self.usage.items() if key.queue == queue.name),
            max_held=max_usable_millicpus(
                policy,
                active=active_shares(self.usage, queue.name),
                max_millicpus=sum(
                    environment.max_millicpus
                    for name in queue.environments
                    if (environment := self.catalog.environments.get(name)) is not None
                    and environment.state is State.ENABLED
                ),
            ),
        )
        return QueueCursor(queue=queue, jobs=waiting, reservation=reservation)


def new_pass(
    unit: UnitOfWork,
    queue_cache: QueueCache,
    catalog: CatalogView,
    *,
    capacity: FreeCapacity,
    usage: Mapping[ShareKey, ShareUse],
    skip: Exclusions,
    empty_queues: Collection[QueueName] = (),
) -> PlacementPass:
    """A pass that places no job in `skip`. `empty_queues`: queues without waiting stored jobs, which are not read."""
    closed = ClosedAccounts(capacity.quotas)
    for name in skip.closed(BudgetScope.ACCOUNT):
        closed.close(AccountName(name))
    return PlacementPass(
        unit=unit,
        queue_cache=queue_cache,
        waiting=WaitingJobs(unit, queue_cache, skip, closed, empty_queues=empty_queues),
        catalog=catalog,
        capacity=capacity,
        usage=usage,
        closed_accounts=closed,
    )


def _full_queues(heads: Mapping[QueueSlot, Head], capacity: FreeCapacity, catalog: CatalogView) -> dict[QueueName, int]:
    """Queues in which a job added at the end cannot start, with their head's sequence.

    Without fair-share queues, and empty if any account has limits: there a later job may become a head.
    """
    if not heads or capacity.quotas.limited:
        return {}
    queues = ((catalog.queues.get(slot), head) for slot, head in heads.items() if isinstance(slot, str))
    in_order = ((queue, head) for queue, head in queues if queue is not None and queue.policy is None)
    return {queue.name: head.sequence for queue, head in in_order if capacity.full(queue.environments)}


async def recheck_unschedulable(
    unit: UnitOfWork, store: JobStore, catalog: CatalogView, *, capacity: FreeCapacity, after: int
) -> int | None:
    """Re-examine a page of unschedulable jobs, those above the sequence `after`.

    A job that an environment could now hold becomes schedulable. Returns the sequence to continue after; None: the end.
    """
    page = await store.unschedulable(UNSCHEDULABLE_PAGE, after)
    unit.load(page)
    for job in filter(None, [unit.get(job.id) for job in page]):
        queue = catalog.queues.get(job.spec.queue)
        if job.unschedulable and queue is not None and capacity.could_hold(candidate_of_job(job), queue.environments):
            unit.step(job.id, on.FoundSchedulable())
    return page[-1].sequence if len(page) == UNSCHEDULABLE_PAGE else None


def _is_runnable(unit: UnitOfWork, job_id: JobId) -> bool:
    """Whether the job may be placed. A damaged job is offered by its columns, but fails when it is loaded."""
    job = unit.get(job_id)
    return job is not None and job.status is Status.RUNNABLE and job.hold is None


def _head(job: Candidate, reason: str) -> Head:
    return Head(job_id=job.job_id, sequence=job.sequence, reason=reason)
