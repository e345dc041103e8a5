"""Propagates the changes of a unit of work to dependents, to array parents and to the children of arrays.

New jobs, and jobs whose dependencies have ended, are evaluated; arrays count the status changes of their children.
Stored dependents are evaluated a page at a time, so that other messages are handled between the pages. Until then a
dependent stays PENDING as stored. Arrays spawn their children, and orders of arrays are applied to these, in batches
too. The remaining work is derived from stored data, so it also resumes after a crash.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from batchq.domain import events as on
from batchq.domain.enums import FINISHED, QUEUED, Status
from batchq.domain.groups import is_gated
from batchq.domain.ids import GroupId, JobId, child_id, parent_of
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import Job
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.views import PendingArrayOrders, has_pending_order
from batchq.domain.scheduling.dependencies import DependencyEvent, dependencies_to_read, evaluate_dependencies
from batchq.engine.staged_changes import pending_dependents
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.jobs import JobStore

MAX_CHILDREN = 250  # children that one unit of work spawns or applies an order to
NO_CHILDREN = IntervalSet()


async def propagate(unit: UnitOfWork, store: JobStore, *, has_dependencies: bool) -> None:
    """Propagate until nothing more follows, or until the unit of work has evaluated its limit of stored dependents.

    `has_dependencies`: whether any stored job depends on another.
    """
    while unit.must_propagate:
        if unit.children_changed:
            await _count(unit, store)
        affected, changed = set(unit.take_new()), unit.take_changed()
        if changed:
            affected.update(await _dependents(unit, store, changed, has_dependencies=has_dependencies))
        if unit.dependents.entries:
            affected.update(await _stored_dependents(unit, store))
        if affected:
            await _evaluate(affected, unit, store)


async def _count(unit: UnitOfWork, store: JobStore) -> None:
    """Update the counts of each array once, however many of its children have changed."""
    parents = unit.children_changed
    await _load(unit, store, parents)
    for parent_id in parents:
        unit.recount(parent_id)


async def _dependents(
    unit: UnitOfWork, store: JobStore, changed: Sequence[JobId], *, has_dependencies: bool
) -> list[JobId]:
    """The dependents changed by this unit of work, and the next child of a SEQUENTIAL array.

    Stored dependents are queued in `unit.dependents`.
    """
    if has_dependencies:
        unit.dependents.add(pending_dependents(changed))
    in_unit = unit.dependents_of(changed)
    next_children = [job_id for job in map(unit.get, changed) if job is not None for job_id in _next_sequential(job)]
    if next_children:
        await _load(unit, store, next_children)
    return [*in_unit, *next_children]


async def _stored_dependents(unit: UnitOfWork, store: JobStore) -> list[JobId]:
    """Load the next page of stored dependents."""
    if unit.dependents.limit <= 0:
        return []
    oldest = unit.dependents.take()
    page = await store.dependents(oldest.ended, after=oldest.after, limit=unit.dependents.limit)
    unit.load(page)
    unit.dependents.record_page(oldest, page)
    return [job.id for job in page]


def _next_sequential(job: Job) -> tuple[JobId, ...]:
    """The next child of a SEQUENTIAL array after one that SUCCEEDED.

    After a failure the parent ends the remaining children.
    """
    if job.child is None or not job.spec.sequential or job.status is not Status.SUCCEEDED:
        return ()
    return (child_id(job.child.parent, job.child.index + 1),)


async def _evaluate(job_ids: Iterable[JobId], unit: UnitOfWork, store: JobStore) -> None:
    """Apply to each queued job the state of its dependencies, in the order of submission."""
    jobs = [job for job_id in job_ids if (job := unit.get(job_id)) is not None and job.status in QUEUED]
    named = {job_id for job in jobs for job_id in dependencies_to_read(job)}
    known: dict[JobId, Job] = {}
    if named:
        await _load(unit, store, named)
        known = {job_id: job for job_id in named if (job := unit.get(job_id)) is not None}
    for job in sorted(jobs, key=attrgetter("sequence")):
        if job.status is not Status.RUNNABLE:
            event = evaluate_dependencies(job, known)
            unit.step(job.id, event if job.spec.group is None else _gated(unit, job, job.spec.group.id, event))


def _gated(unit: UnitOfWork, job: Job, group_id: GroupId, event: DependencyEvent) -> DependencyEvent:
    """The event, but a job of a group with `max_running` remains PENDING until `Groups.release` gives it a place."""
    if not is_gated(job) or not isinstance(event, on.DependenciesMet):
        return event
    unit.groups.gate(job.id, group_id)
    return on.DependenciesPending()


async def _load(unit: UnitOfWork, store: JobStore, job_ids: Iterable[JobId]) -> None:
    unknown = unit.not_loaded(job_ids)
    if unknown:
        unit.load((await store.jobs(sorted(unknown))).values())


class ArrayCoordinator:
    """Holds the arrays with work to do, as last saved: children to spawn, or an order to apply to them."""

    def __init__(self) -> None:
        #: By id. While there are any, the next unit of work has work to do even without a message.
        self.unfinished: dict[JobId, Job] = {}
        #: The value of `pending_orders`; None: compute it again.
        self._pending_orders: PendingArrayOrders | None = None

    @property
    def pending_orders(self) -> PendingArrayOrders:
        """The arrays with an order that may not have been applied to all children. The value is immutable."""
        if self._pending_orders is None:
            self._pending_orders = PendingArrayOrders(
                {job_id: job for job_id, job in self.unfinished.items() if has_pending_order(job)}
            )
        return self._pending_orders

    async def load(self, store: JobStore) -> None:
        self.unfinished = {job.id: job for job in await store.arrays_with_work()}
        self._pending_orders = None

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            if job.array_state is not None and arrays.at_work(job):
                self.unfinished[job.id] = job
            elif self.unfinished.pop(job.id, None) is None:
                continue
            self._pending_orders = None

    def children_under_order(self, unit: UnitOfWork) -> IntervalSet:
        """The `Job.sequence` of the children that must not start: an order of their array is still to be applied."""
        ids = set(self.unfinished)
        for _, job in unit.job_changes:
            if job.array_state is not None:
                ids.add(job.id)
        if not ids:
            return NO_CHILDREN
        return IntervalSet(
            [arrays.orders_left(job) for job in self._select(unit, ids) if arrays.order(job) is not None]
        )

    def has_spawning_array(self, before: int) -> bool:
        """Whether an array whose `Job.sequence` is below `before` still has children to spawn."""
        return any(job.sequence < before and arrays.spawning(job) for job in self.unfinished.values())

    async def spawn_and_order(self, unit: UnitOfWork, store: JobStore) -> None:
        """Spawn children and apply orders for the arrays that had work before this unit of work.

        Arrays of this unit follow in the next one, so requests are answered without delay.
        """
        left = MAX_CHILDREN
        for parent in self._select(unit, self.unfinished):
            if left > 0:
                spawned = _spawn(unit, parent, left)
                left -= spawned + await _apply_order(unit, store, parent.id, left)

    def _select(self, unit: UnitOfWork, parents: Iterable[JobId]) -> list[Job]:
        """The arrays among `parents` with work to do, as the unit of work leaves them, oldest first."""
        unit.load(self.unfinished.values())
        jobs = (job for job in map(unit.get, parents) if job is not None and arrays.at_work(job))
        return sorted(jobs, key=lambda job: job.sequence)


def _spawn(unit: UnitOfWork, parent: Job, limit: int) -> int:
    """Spawn up to `limit` children; returns their number."""
    after, children = arrays.spawn(parent, limit, unit.now)
    if children:
        unit.update(parent, after)
    for child in children:
        unit.insert(child, None)
        unit.update(child, arrays.apply_child_order(child, parent, unit.now))
    return len(children)


async def _apply_order(unit: UnitOfWork, store: JobStore, parent_id: JobId, limit: int) -> int:
    """Apply the array's order to up to `limit` children; returns their number."""
    parent = unit.get(parent_id)
    assert parent is not None, f"{parent_id} has work to do and is not loaded"
    if arrays.order(parent) is None:
        return 0
    after, indices = arrays.pass_order(parent, limit)
    unit.load(await store.children(parent_id, indices.start, len(indices)))
    for index in indices:
        unit.apply_parent_order(child_id(parent_id, index))
    unit.update(parent, after)
    return len(indices)


def will_be_spawned(unit: UnitOfWork, job_id: JobId) -> bool:
    """Whether the id is a child that its array is about to spawn."""
    parent = array_of_unspawned_child(unit, job_id)
    return parent is not None and arrays.at_work(parent)


def awaits_hold(unit: UnitOfWork, job: Job) -> bool:
    """Whether the job is a child to which its array has still to apply its hold, or its release."""
    parent = None if job.child is None else unit.get(job.child.parent)
    return job.child is not None and parent is not None and arrays.is_passing_hold(parent, job.child.index)


def array_of_unspawned_child(unit: UnitOfWork, job_id: JobId) -> Job | None:
    """The unfinished array whose child `job_id` has not been spawned yet, else None."""
    child = parent_of(job_id)
    parent = None if child is None else unit.get(child[0])
    if (
        child is None
        or parent is None
        or unit.has_loaded(job_id)
        or not arrays.is_parent(parent)
        or parent.status in FINISHED
    ):
        return None
    return parent if child[1] < arrays.size(parent) and job_id == child_id(*child) else None
