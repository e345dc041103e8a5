"""The part of a unit of work that carries out bulk stops: each unit stops a limited number of jobs.

The commit that saves a bulk stop decides which jobs are its targets. A target cannot start before it is stopped. The
candidates are read before that unit of work, so that no commit waits for the read. A job that did not change between
the read and the commit is as it was read; the commit examines the few changed jobs again, so the result is the same as
if it had examined all jobs.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from weakref import ref

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.bulk_stop import (
    BulkStop,
    Candidates,
    JobOutcome,
    Progress,
    StopTarget,
    children_count,
    container_outcome,
    has_children,
    note,
    selected_container,
    standing_order,
    stop_outcome,
)
from batchq.domain.enums import Outcome
from batchq.domain.ids import JobId, container_id
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle import views
from batchq.domain.task import TaskContainer
from batchq.engine.mailbox import BulkStopRequest
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import Throttled
from batchq.ports.jobs import BulkStopStore, Changes
from batchq.system.throttling import ConcurrencyLimit

REQUESTED = "requested"  # the outcome in the audit record of a bulk stop
MAX_STOPS = 500  # jobs that one unit of work stops
MAX_PER_USER = 100  # bulk stops of one user in progress: selecting the jobs of each may take part of a second
OutcomeReceiver = Callable[[tuple[JobOutcome, ...] | None], None]
NO_TARGETS = IntervalSet()


class BulkStops:
    """The bulk stops in progress, as last saved."""

    def __init__(self, store: BulkStopStore) -> None:
        self._store = store
        #: By number, oldest first.
        self.in_progress: dict[int, BulkStop] = {}
        #: By number, the receiver of the outcomes; missing after a restart.
        self._receivers: dict[int, OutcomeReceiver] = {}
        #: Whether `targets` must be read again before anything is decided in a unit of work.
        self.targets_outdated = False
        #: The `Job.sequence` of all targets that are not stopped yet, and of their children.
        self.targets = NO_TARGETS

    async def load(self) -> None:
        """Load the bulk stops in progress, and end the reports of those that are not stored."""
        self.in_progress = {stop.number: stop for stop in await self._store.bulk_stops()}
        self.targets_outdated = True
        for number in self._receivers.keys() - self.in_progress.keys():  # the next bulk stop may get this number
            self._receivers.pop(number)(None)

    async def read_targets(self) -> None:
        self.targets = IntervalSet(
            [run for number in self.in_progress for run in await self._store.target_ranges(number)]
        )
        self.targets_outdated = False

    def begin(self, unit: UnitOfWork, message: BulkStopRequest) -> None:
        """Begin a bulk stop. Raises Throttled."""
        known = [*self.in_progress.values(), *(bulk_stop for bulk_stop, _ in unit.bulk_stops.begun)]
        users = [stop.record.user for stop in known if stop.record is not None]
        caller = unit.audit.caller
        if caller is not None and users.count(caller.user) >= MAX_PER_USER:
            raise Throttled(f"User {caller.user} has {MAX_PER_USER} bulk stops in progress: Rate exceeded")
        number = max((stop.number for stop in known), default=0) + 1
        record = unit.audit.record("jobs", REQUESTED) or message.record
        unit.bulk_stops.begin(BulkStop(number=number, request=message.request, record=record), message)

    async def stop_targets(self, unit: UnitOfWork) -> None:
        """Stop the next targets, oldest bulk stop first.

        The limit is divided, so a small bulk stop does not wait for a large one.
        """
        left = MAX_STOPS
        for before, bulk_stop in enumerate(self.in_progress.values()):
            most = math.ceil(left / (len(self.in_progress) - before))
            if most > 0:
                page = await self._store.next_targets(bulk_stop.number, most)
                unit.load(target.job for target in page)
                outcomes = tuple(_stop_target(unit, bulk_stop, target) for target in page)
                sequence, part = (page[-1].job.sequence, page[-1].part) if page else (-1, None)
                over = len(page) < most
                progress = Progress(bulk_stop=bulk_stop.number, sequence=sequence, part=part, complete=over)
                unit.bulk_stops.record_page(progress, outcomes)
                left -= len(page)

    def on_committed(self, committed: Committed) -> None:
        unit = committed.unit
        for bulk_stop, message in unit.bulk_stops.begun:
            self.in_progress[bulk_stop.number] = bulk_stop
            self._receivers[bulk_stop.number] = message.report
            self.targets_outdated = True
        for progress, outcomes in unit.bulk_stops.pages:
            report = self._receivers.get(progress.bulk_stop, discard_outcomes)
            report(outcomes)
            if progress.complete:
                del self.in_progress[progress.bulk_stop]
                self._receivers.pop(progress.bulk_stop, discard_outcomes)(None)
        if not self.in_progress:
            self.targets = NO_TARGETS


def _stop_target(unit: UnitOfWork, bulk_stop: BulkStop, target: StopTarget) -> JobOutcome:
    job, request = unit.apply_parent_order(target.job.id), bulk_stop.request
    assert job is not None, f"{target.job.id} is a target and is not loaded"
    container = selected_container(job, target.part)
    if container is not None:
        return _stop_container(unit, bulk_stop, job, container)
    unit.step(job.id, request.event(node=target.part, requested_at=bulk_stop.requested_at))
    shown = views.with_order_applied(job) if target.part is None else views.node_view(job, target.part)
    became = stop_outcome(request.kind, shown.status, has_children=has_children(shown))
    _audit(unit, bulk_stop, job, shown.id, became)
    return JobOutcome(
        job_id=shown.id,
        name=job.spec.name,
        status=shown.status,
        outcome=became,
        note=note(request, shown),
        standing=standing_order(request, shown),
        children=children_count(shown),
    )


def _stop_container(unit: UnitOfWork, bulk_stop: BulkStop, job: Job, container: TaskContainer) -> JobOutcome:
    """Stop one container of a task; an essential one stops the whole job."""
    named = container_id(job.id, container.name)
    became, message = container_outcome(bulk_stop.request, job, container)
    if became in {Outcome.STOPPING, Outcome.CONTAINER_STOPPING}:
        event = bulk_stop.request.event(container=container.name, requested_at=bulk_stop.requested_at)
        unit.step(job.id, event)
    _audit(unit, bulk_stop, job, named, became)
    return JobOutcome(job_id=named, name=job.spec.name, status=job.status, outcome=became, note=message)


def _audit(unit: UnitOfWork, bulk_stop: BulkStop, job: Job, named: JobId, outcome: Outcome) -> None:
    """Add an audit record about `named` if its job has changed."""
    if bulk_stop.record is not None and unit.get(job.id) is not job:
        record = replace(bulk_stop.record, at=unit.now)
        unit.audit.add(record.about_job(named, job.spec.owner, outcome))


def discard_outcomes(_: tuple[JobOutcome, ...] | None) -> None:
    """Receives the outcomes of a bulk stop for which no client waits: of the server, or from before a restart."""


def outcome_receiver(
    outcomes: asyncio.Queue[tuple[JobOutcome, ...] | None],
) -> Callable[[tuple[JobOutcome, ...] | None], None]:
    """Holds a weak reference to the queue: outcomes are dropped once the client disconnects."""
    receiver = ref(outcomes)

    def report(some: tuple[JobOutcome, ...] | None) -> None:
        queue = receiver()
        if queue is not None:
            queue.put_nowait(some)

    return report


async def outcomes_until_end(
    outcomes: asyncio.Queue[tuple[JobOutcome, ...] | None],
) -> AsyncIterator[tuple[JobOutcome, ...]]:
    """The outcomes in the queue until the None that ends them."""
    while (some := await outcomes.get()) is not None:
        yield some


MAX_CHANGED = 5000  # jobs that a commit examines again; if more have changed, the candidates are read again
MAX_WAITING = 15  # bulk stops of one user that wait while another one of the same user is being selected


class CandidateReader:
    """Reads candidates, and follows which jobs change afterwards.

    One read of a user at a time: the next waits for it.
    """

    def __init__(self, store: BulkStopStore) -> None:
        self._store = store
        #: For each read in use, the sequences of the jobs that changed since it began.
        self.reads: list[ref[_ChangedOrders]] = []
        self._one_at_a_time = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)

    def record_changes(self, changes: Changes) -> None:
        """Record the changed jobs after a commit, even if it is not known whether the commit was saved."""
        self.reads = [reference for reference in self.reads if reference() is not None]
        sequences = {job.sequence for jobs in (changes.inserted, changes.updated) for job in jobs}
        for read in [reference() for reference in self.reads]:
            if read is not None:
                read.update(sequences)

    def after_earlier_of(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Wait for the same user's earlier bulk stops. Entering it raises Throttled."""
        return self._one_at_a_time.of(caller.user)

    async def candidates(self, selection: JobSelection) -> Candidates:
        """The jobs that match now. While the result is referenced, changed jobs are added to its `changed`."""
        changed = _ChangedOrders()
        self.reads.append(ref(changed))  # before the read begins, so that no commit comes between
        return Candidates(places=await self._store.candidates(selection), changed=changed)


def must_read_again(message: BulkStopRequest) -> bool:
    """Whether so many jobs have changed since the read that the candidates should be read again."""
    return not message.final and message.candidates is not None and len(message.candidates.changed) > MAX_CHANGED


class _ChangedOrders(set[int]):
    """A set that supports weak references: changes are recorded only while a request uses the set."""
