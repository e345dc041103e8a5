"""The part of a unit of work that spawns the children of arrays and applies orders of arrays to their children."""

from collections.abc import Iterable

from batchq.domain.ids import JobId, child_id
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import Job
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.array_view import PendingArrayOrders, has_pending_order
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.jobs import JobStore

MAX_CHILDREN = 250  # children that one unit of work spawns or applies an order to
NO_CHILDREN = IntervalSet()


class ArrayCoordinator:
    """Holds the arrays with work to do, as last saved: children to spawn, or an order to apply to them."""

    def __init__(self) -> None:
        #: By id.
        self._unfinished: dict[JobId, Job] = {}
        #: The value of `pending_orders`; None: compute it again.
        self._pending_orders: PendingArrayOrders | None = None

    @property
    def busy(self) -> bool:
        """Whether the next unit of work has work to do even without a message."""
        return bool(self._unfinished)

    @property
    def pending_orders(self) -> PendingArrayOrders:
        """The arrays with an order that may not have been applied to all children. The value is immutable."""
        if self._pending_orders is None:
            self._pending_orders = PendingArrayOrders(
                {job_id: job for job_id, job in self._unfinished.items() if has_pending_order(job)}
            )
        return self._pending_orders

    async def load(self, store: JobStore) -> None:
        self._unfinished = {job.id: job for job in await store.arrays_with_work()}
        self._pending_orders = None

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            self._update(job)

    def _update(self, job: Job) -> None:
        if arrays.at_work(job):
            self._unfinished[job.id] = job
        elif self._unfinished.pop(job.id, None) is None:
            return
        self._pending_orders = None

    def load_into(self, unit: UnitOfWork) -> None:
        """Load the arrays into a new unit of work. Their pending orders are applied to children before other events."""
        unit.load(self._unfinished.values())

    def children_under_order(self, unit: UnitOfWork) -> IntervalSet:
        """The `Job.order` of the children that must not start: an order of their array is still to be applied."""
        ids = {*self._unfinished, *[job.id for job in unit.changed_arrays()]}
        if not ids:
            return NO_CHILDREN
        return IntervalSet(
            [arrays.orders_left(job) for job in self._select(unit, ids) if arrays.order(job) is not None]
        )

    def has_spawning_array(self, before: int) -> bool:
        """Whether an array with an order below `before` still has children to spawn."""
        return any(it.order < before and arrays.spawning(it) for it in self._unfinished.values())

    async def spawn_and_order(self, unit: UnitOfWork, store: JobStore) -> None:
        """Spawn children and apply orders for the arrays that had work before this unit of work.

        Arrays of this unit follow in the next one, so requests are answered without delay.
        """
        left = MAX_CHILDREN
        for parent in self._select(unit, self._unfinished):
            if left > 0:
                spawned = _spawn(unit, parent, left)
                left -= spawned + await _apply_order(unit, store, parent.id, left)

    def _select(self, unit: UnitOfWork, parents: Iterable[JobId]) -> list[Job]:
        """The arrays among `parents` with work to do, as the unit of work leaves them, oldest first."""
        self.load_into(unit)
        jobs = (job for job in map(unit.get, parents) if job is not None and arrays.at_work(job))
        return sorted(jobs, key=lambda it: it.order)


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
