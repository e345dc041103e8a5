"""Explanations of jobs: reads what a job waits for, and the state of the scheduler, for one reader.

The reads of the store are bounded by the number of jobs; the engine's state is read from memory in one go, after them,
without a wait. So no unit of work waits for an explanation.
"""

from collections.abc import Mapping, Sequence

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Status
from batchq.domain.explanation.explain import explain
from batchq.domain.explanation.explanation import Explanation
from batchq.domain.explanation.facts import QueuePosition, Reader, RelatedJobs
from batchq.domain.explanation.queued import explain_not_created
from batchq.domain.ids import JobId, QueueName, node_id, node_of
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle import arrays, views
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.domain.scheduling.dependencies import dependencies_to_read
from batchq.domain.status_reasons import DEPENDENCY_FAILED
from batchq.engine.engine import Engine
from batchq.errors import NotFound
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import JobStore
from batchq.ports.queue import waiting_job
from batchq.services.job_reads import PendingOrdersView

MAX_EXPLAINED = 100  # jobs of one request
MAX_HEADS = 5  # heads of queues that are read, for names of jobs that capacity is reserved for


class ExplanationService:
    """Explains jobs to callers who may see them."""

    def __init__(self, *, engine: Engine, store: JobStore) -> None:
        self._engine = engine
        self._store = store
        self._projected = PendingOrdersView(store, engine.pending_array_orders, engine.start_obstacle)

    async def why(self, job_id: JobId, *, caller: Caller) -> Explanation:
        """The explanation of a job; for a node that of its job. Raises NotFound for a job that is not visible."""
        whole, node = node_of(job_id)
        job = await self._projected.job(whole, visibility=caller.visibility)
        if job is None:
            raise await self._projected.missing(whole, visibility=caller.visibility)
        if node is not None and not _has_node(job, job_id, node):
            raise NotFound(f"Job {job_id} not found.")
        return await self.why_of(job, caller=caller)

    async def why_of(self, job: Job, *, caller: Caller) -> Explanation:
        """The explanation of a job that is visible to the caller, and no node. Raises NotFound."""
        array = await self._array_of_unspawned(job)
        if array is not None:
            return explain_not_created(job, array, await self.why(array.id, caller=caller))
        failed = await self._failed_child(job)
        return (await self._explain((job,), caller=caller, failed_child=failed))[job.id]

    async def explain(self, jobs: Sequence[Job], *, caller: Caller) -> Mapping[JobId, Explanation]:
        """The explanations of these jobs, which are visible to the caller; of the first MAX_EXPLAINED of them."""
        return await self._explain(jobs[:MAX_EXPLAINED], caller=caller, failed_child=None)

    async def heads(self, queues: Sequence[QueueName], *, caller: Caller) -> Mapping[QueueName, Explanation]:
        """For each of these queues with a blocked head that the caller may see: why it waits."""
        heads = self._engine.queue_heads()
        ids = [heads[queue].job_id for queue in queues if queue in heads][:MAX_EXPLAINED]
        if not ids:
            return {}
        found = await self._projected.placed_jobs(ids, visibility=caller.visibility)
        jobs = found.jobs
        why = await self._explain(tuple(jobs.values()), caller=caller, failed_child=None, places=found.places)
        return {jobs[job_id].spec.queue: explanation for job_id, explanation in why.items()}

    async def _array_of_unspawned(self, job: Job) -> Job | None:
        """The array that has still to spawn the unfinished child `job`; None for any other job."""
        if job.child is None or job.status not in {Status.SUBMITTED, Status.PENDING}:
            return None
        array = (await self._store.jobs([job.child.parent])).get(job.child.parent)
        return None if array is None or arrays.unspawned_child(array, job.id) is None else array

    async def _explain(
        self,
        jobs: Sequence[Job],
        *,
        caller: Caller,
        failed_child: Job | None,
        places: Mapping[JobId, QueuePosition] | None = None,
    ) -> Mapping[JobId, Explanation]:
        """`places`: the places of the jobs that wait to be placed; None: the places are read."""
        if not jobs:
            return {}
        ids = {job_id for job in jobs for job_id in _ids_to_read(job)}
        heads = set[JobId]()
        if any(is_queued_for_placement(job) and job.blocked_at is not None for job in jobs):
            heads = {head.job_id for head in list(self._engine.queue_heads().values())[:MAX_HEADS]}
        known = {job.id: job for job in jobs if job.id in heads}
        if missing := ids | (heads - known.keys()):
            known |= await self._store.jobs(sorted(missing))
        if places is None:
            waiting = [waiting_job(job) for job in jobs if is_queued_for_placement(job)]
            places = await self._store.places(waiting) if waiting else {}
        state, reader = self._engine.scheduler_state(), Reader(caller=caller)
        return {
            job.id: explain(
                job, RelatedJobs(jobs=known, place=places.get(job.id), failed_child=failed_child), state, reader
            )
            for job in jobs
        }

    async def _failed_child(self, job: Job) -> Job | None:
        """A failed child of an array that failed; None for any other job."""
        if job.status is not Status.FAILED or not arrays.is_parent(job):
            return None
        failed = JobSelection(parent=job.id, statuses=frozenset({Status.FAILED}))
        page = await self._store.list(PageQuery(selection=failed, limit=1))
        return next(iter(page.jobs), None)


def _has_node(job: Job, job_id: JobId, node: int) -> bool:
    """Whether the id names a node of the job, in its only spelling."""
    return views.node_exists(job, node) and node_id(job.id, node) == job_id


def _ids_to_read(job: Job) -> tuple[JobId, ...]:
    """The jobs that an explanation may name: dependencies of a waiting job, or the failed one."""
    if job.status in {Status.SUBMITTED, Status.PENDING} and job.array_state is None:
        return dependencies_to_read(job)
    if job.status is Status.FAILED and (job.status_reason or "").startswith(DEPENDENCY_FAILED):
        return (JobId((job.status_reason or "").rpartition(": ")[2]),)
    return ()
