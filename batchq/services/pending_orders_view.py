"""Reads of jobs as users see them, with the effects of orders to arrays that are still to be written."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from batchq.domain.access.accounts import Visibility
from batchq.domain.ids import JobId, parent_of
from batchq.domain.job import FINISHED, QUEUED, Job, Status
from batchq.domain.lifecycle.arrays import is_parent, size, unspawned_child
from batchq.domain.lifecycle.views import PendingArrayOrders
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.errors import NotFound
from batchq.ports.catalog import NeedQuery
from batchq.ports.job_search import JobPage, JobSearchQuery
from batchq.ports.jobs import ChildQuery, ChildRun, JobQuery, JobStore


def job_not_found(job_id: JobId, array: Job | None) -> NotFound:
    """The error for a job that does not exist. `array`: if `job_id` is that of a child, its array; None if hidden."""
    child = parent_of(job_id)
    is_child = array is not None and child is not None and is_parent(array) and child[1] < size(array)
    if array is None or not is_child or array.status not in FINISHED:
        return NotFound(f"Job {job_id} not found.")
    return NotFound(f"Job {job_id} does not exist: its array ended ({array.status}) before it created this child.")


def joined_runs(runs: Iterable[ChildRun]) -> tuple[ChildRun, ...]:
    """The runs with neighbours of one status joined."""
    joined: list[ChildRun] = []
    for run in runs:
        if joined and joined[-1].status is run.status and joined[-1].end == run.first:
            joined[-1] = joined[-1]._replace(end=run.end)
        else:
            joined.append(run)
    return tuple(joined)


def _unspawned(array: Job, *, first: int) -> tuple[ChildRun, ...]:
    """The children from index `first` on as `unspawned_child` shows them; those with an order of their own end."""
    stopped = {index for it in array.child_orders for index in it.indices}
    if not stopped:
        return (ChildRun(array.status, first, size(array)),) if first < size(array) else ()
    each = range(first, size(array))
    return tuple(ChildRun(Status.FAILED if it in stopped else array.status, it, it + 1) for it in each)


class PendingOrdersView:
    """Reads of jobs with the effects of orders that are not yet applied to the children of arrays. Decision 0027.

    The state of the orders is taken before the store is read, so that a job that was shown as ended never appears
    unfinished again.
    """

    def __init__(
        self,
        store: JobStore,
        pending_orders: Callable[[], PendingArrayOrders],
        start_obstacle: Callable[[], str | None],
    ) -> None:
        """`pending_orders`: the arrays with pending orders, as of the last commit.

        `start_obstacle`: the statusReason of RUNNABLE jobs while no job can start, else None. It is the same for all of
        them, so it is not stored with each job.
        """
        self._store = store
        self._pending_orders = pending_orders
        self._start_obstacle = start_obstacle

    async def jobs(self, ids: Sequence[JobId], *, visibility: Visibility | None = None) -> Mapping[JobId, Job]:
        pending = self._pending_orders()
        found = await self._store.jobs(ids, visibility=visibility)
        return {it.id: it for it in self._project(pending, tuple(found.values()))}

    async def job(self, job_id: JobId, *, visibility: Visibility | None) -> Job | None:
        """One job, also a child that its array has not spawned yet; None if there is no such job, or it is hidden."""
        pending, child = self._pending_orders(), parent_of(job_id)
        ids = [job_id] if child is None else [job_id, child[0]]
        found = await self._store.jobs(ids, visibility=visibility)
        job = found.get(job_id)
        if job is None and child is not None and child[0] in found:
            job = unspawned_child(found[child[0]], job_id)
        return None if job is None else self._project(pending, (job,))[0]

    async def missing(self, job_id: JobId, *, visibility: Visibility | None) -> NotFound:
        """The error for a job that `job` does not find; it names an array that ended before it created the child."""
        child = parent_of(job_id)
        found = {} if child is None else await self._store.jobs([child[0]], visibility=visibility)
        return job_not_found(job_id, None if child is None else found.get(child[0]))

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        pending = self._pending_orders()
        return self._project(pending, await self._store.list(replace(query, ended_arrays=pending.ended_arrays)))

    async def search(self, query: JobSearchQuery) -> JobPage:
        pending = self._pending_orders()
        stopped = frozenset(it.order for it in pending.parents.values())
        page = await self._store.search(replace(query, ended_arrays=pending.ends, stopped_arrays=stopped))
        return replace(page, jobs=self._project(pending, page.jobs))

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        pending = self._pending_orders()
        return self._project(pending, await self._store.list_needing(replace(query, ended_arrays=pending.ended_arrays)))

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]:
        pending = self._pending_orders()
        return self._project(
            pending, await self._store.list_children(replace(query, ended=query.parent in pending.parents))
        )

    async def child_runs(self, array: Job) -> tuple[ChildRun, ...]:
        """The statuses of the children of `array`, by index, also of those that it has not spawned yet."""
        pending = self._pending_orders()
        runs = await self._store.child_runs(array.id)
        if array.status not in FINISHED:
            runs += _unspawned(array, first=runs[-1].end if runs else 0)
        if array.id in pending.parents:
            runs = tuple(it._replace(status=Status.FAILED) if it.status in QUEUED else it for it in runs)
        return joined_runs(runs)

    def _project(self, pending: PendingArrayOrders, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        shown = tuple(map(pending.project, jobs)) if pending.parents else jobs
        obstacle = self._start_obstacle()
        if obstacle is None:
            return shown
        return tuple(replace(it, status_reason=obstacle) if is_queued_for_placement(it) else it for it in shown)
