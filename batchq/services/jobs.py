"""The job service: describe, list, cancel and terminate.

Users see jobs as they are stored, with two projections at read time: children of a stopped array are shown as ended
before their rows are updated (decision 0027), and RUNNABLE jobs show why no job starts at present.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import Tags
from batchq.domain.enums import ACTIVE, FINISHED, StopKind
from batchq.domain.ids import JobId, QueueName, node_id, node_of, parent_of
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle import arrays, views
from batchq.domain.stop_request import StopRequest
from batchq.domain.use_points import UsePoint
from batchq.engine.engine import Engine
from batchq.errors import BatchqError, Invalid, NotFound, Unavailable
from batchq.ports.catalog import NeedQuery, Snapshot
from batchq.ports.history import HistoryEntry
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import ChildRun, JobFacts, JobFactsQuery, JobStore
from batchq.services.catalog import CatalogService
from batchq.services.job_reads import PendingOrdersView
from batchq.services.reruns import newest_reruns, repeatable, repeated_ids

MAX_CHILDREN_NAMED = 10


Errors = Mapping[JobId, BatchqError]


class JobService:
    """Requests about jobs. The engine's loop executes all changes, in the order of its commits.

    Jobs that are not visible to the caller are treated as missing.
    """

    def __init__(self, *, engine: Engine, store: JobStore, catalog: CatalogService) -> None:
        self._engine = engine
        self._store = store
        self._projected = PendingOrdersView(store, engine.pending_array_orders, engine.start_obstacle)
        self._catalog = catalog

    async def find(self, job_id: JobId, *, caller: Caller) -> Job | None:
        """A job, a node, or a child, also one that its array has not created yet; None for an unknown id.

        A running attempt has its last sample.
        """
        whole = node_of(job_id)[0]
        job = await self._projected.job(whole, visibility=caller.visibility)
        return None if job is None else _job_or_node(job_id, {whole: self._engine.use.measured(job)})

    def use_points(self, job: Job) -> tuple[UsePoint, ...]:
        """What the attempt under way used over time, as far as this server has measured it. `job`: a visible one."""
        return self._engine.use.points(job)

    async def describe(self, ids: Sequence[JobId], *, caller: Caller) -> tuple[Job, ...]:
        """The jobs with these ids, in the given order without duplicates. Unknown ids are omitted."""
        jobs = await self._visible_jobs([node_of(job_id)[0] for job_id in ids], caller)
        return tuple(job for job_id in dict.fromkeys(ids) if (job := _job_or_node(job_id, jobs)) is not None)

    async def list(self, query: PageQuery, *, caller: Caller) -> tuple[Job, ...]:
        """The next jobs of a query: as many as it allows, unless fewer match. Raises NotFound for an unknown queue.

        With `parent` the children of an array are listed, those with the highest index first.
        """
        rules.require_existing("JobQueue", query.selection.queues or (), self._catalog.queues_of(caller))
        query = replace(query, selection=replace(query.selection, visibility=caller.visibility))
        found: tuple[Job, ...] = ()
        while True:
            page = await self._projected.list(replace(query, limit=query.limit - len(found)))
            found += page.jobs
            if page.next is None or len(found) >= query.limit:
                return found
            query = replace(query, before=page.next)

    async def child_runs(self, array: Job) -> tuple[ChildRun, ...]:
        """The statuses of the children of a visible array, by index."""
        return await self._projected.child_runs(array)

    async def list_needing(self, query: NeedQuery, *, caller: Caller) -> tuple[Job, ...]:
        """One page of the jobs that require a consumable resource. Raises NotFound for an unknown resource."""
        rules.require_existing("ConsumableResource", [query.resource], self._catalog.consumables)
        return await self._projected.list_needing(replace(query, visibility=caller.visibility))

    async def list_nodes(self, job_id: JobId, *, caller: Caller) -> tuple[Job, ...]:
        """The nodes of a multi-node job, each shown as a job; empty for any other job."""
        job = (await self._visible_jobs([job_id], caller)).get(job_id)
        return () if job is None else views.node_views(job)

    async def snapshot(self, queue: QueueName, *, caller: Caller) -> Snapshot:
        """The front of a queue and the resources that its jobs hold. Raises NotFound for an unknown queue.

        For callers below OPERATOR, jobs that are not visible to them are left out, and so are all shares, because their
        names may come from other users.
        """
        rules.require_existing("JobQueue", [queue], self._catalog.queues_of(caller))
        snapshot = await self._engine.snapshot(queue)
        if caller.reaches_all:
            return snapshot
        visible = await self._visible_jobs([job_id for job_id, _ in snapshot.jobs], caller)
        return replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job[0] in visible), shares=())

    async def stop(self, job_id: JobId, request: StopRequest, *, caller: Caller, expected: str | None = None) -> None:
        """Cancel, terminate or pause a job. The order is durable when this method returns; containers stop later.

        CANCEL: a job that is not yet STARTING ends; an active job keeps running, without further attempts. An unknown
        id is success, as for TERMINATE, which ends a job in any status.

        PAUSE: a queued job is held; the attempt of an active job is stopped, with a final checkpoint, and the job is
        held after it. The next attempt continues from the checkpoints. The attempt does not count against the retries.
        A job that is pausing or paused is unchanged. Raises NotFound; Invalid for a job that is being stopped, was
        cancelled or has finished, and for a node.

        `expected`: the `stop_state` that the job must have; None: any. Raises StateChanged; Invalid for force with
        other options, and for a checkpoint of a job without a checkpoint directory.
        """
        request.check()
        if request.kind is StopKind.PAUSE:
            event = on.PauseRequested(reason=request.reason, user=caller.user)
            await self._deliver_hold(job_id, event, caller=caller, expected=expected)
            return
        if request.checkpoint:
            await self._check_checkpoint(job_id, caller=caller)
        for refused in (await self._deliver_stops(request, [job_id], caller=caller, expected=expected)).values():
            raise refused

    async def stop_many(self, ids: Sequence[JobId], request: StopRequest, *, caller: Caller) -> Errors:
        """Cancel or terminate each job as `stop` does. Returns the errors of the jobs that could not be stopped."""
        return await self._deliver_stops(request, ids, caller=caller)

    async def hold(self, job_id: JobId, reason: str, *, caller: Caller, expected: str | None = None) -> None:
        """Keep a queued job from being placed until it is released. A job that is held already is unchanged.

        Of an array all children are held, also those that are not created yet, and active ones after their attempt.

        `expected`: the `stop_state` that the job must have; None: any. Raises NotFound; StateChanged; Invalid for an
        active or finished job, or a node.
        """
        event = on.HoldRequested(reason=reason, user=caller.user)
        await self._deliver_hold(job_id, event, caller=caller, expected=expected)

    async def release(self, job_id: JobId, *, caller: Caller) -> bool:
        """Let a held or paused job be placed again, at its old position. A job that is not held is unchanged.

        Returns whether it was held. Raises NotFound; Invalid for a finished job or a node.
        """
        return await self._deliver_hold(job_id, on.ReleaseRequested(user=caller.user), caller=caller)

    async def resume_job(self, job_id: JobId, *, caller: Caller) -> bool:
        """Let a paused or held job be placed again, at its old position. A job that is not held is unchanged.

        A job that is pausing goes back to its queue once its attempt has ended. Returns whether the job was held.
        Raises NotFound; Invalid for a finished job or a node.
        """
        return await self._deliver_hold(job_id, on.ResumeRequested(user=caller.user), caller=caller)

    async def _deliver_hold(
        self, job_id: JobId, event: on.HoldEvent, *, caller: Caller, expected: str | None = None
    ) -> bool:
        """Returns whether the job was held before, or was about to be held with its array."""
        whole, node = node_of(job_id)
        if node is not None:
            raise Invalid(f"Job {job_id} is a node: name the whole job {whole}.")
        job = await self._must_exist(job_id, caller)
        was_held = job.hold is not None or await self._projected.awaits_hold(job)
        await self._engine.deliver(job_id, event, caller=caller, expected=expected)
        return was_held

    async def leave_safe_mode(self, *, purge: bool, new_engine: bool, caller: Caller) -> None:
        """End safe mode after a restore. Orphaned containers are removed with `purge`, else left alone permanently.

        `new_engine`: the present container engine is first accepted in place of the one that jobs run on.
        """
        await self._engine.leave_safe_mode(purge=purge, new_engine=new_engine, caller=caller)

    async def force_fail(self, job_id: JobId, reason: str, *, caller: Caller, expected: str | None = None) -> Job:
        """Fail a job whose container does not stop, and free its resources. The last resort.

        Returns the job afterwards; a finished job is unchanged. `expected`: the `stop_state` that the job must have;
        None: any. Raises NotFound; StateChanged; Invalid for an array or a node.
        """
        whole, node = node_of(job_id)
        if node is not None:
            raise Invalid(f"Job {job_id} is a node: force-fail the whole job {whole}.")
        job = await self._must_exist(job_id, caller)
        if job.status in FINISHED:
            return job
        if arrays.is_parent(job):
            raise Invalid(f"Job {job_id} is an array: force-fail {await self._active_children(job_id)}.")
        event = on.ForceFailed(reason=reason, user=caller.user)
        await self._engine.deliver(job_id, event, caller=caller, expected=expected)
        return await self._must_exist(job_id, caller)

    async def dependents(self, *ids: JobId, limit: int, caller: Caller) -> tuple[Job, ...]:
        """Of the first `limit` jobs that wait for one of these, by order of submission, those that are visible."""
        waiting = await self._store.dependents(ids, limit=limit)
        return tuple(job for job in waiting if caller.reaches(job.spec.owner))

    async def facts(self, job: Job, *, dependents: int, caller: Caller) -> JobFacts:
        """The facts of a visible job; for a node the history of its whole job, and no dependents.

        `dependents`: how many are read at most. Those that are not visible are left out of the result.
        """
        (whole, node), repeated = node_of(job.id), repeatable([job])
        query = JobFactsQuery(
            job_id=whole, repeated=repeated_ids(repeated), dependents=dependents if node is None else 0
        )
        facts = await self._store.job_facts(query)
        visible = tuple(other for other in facts.dependents if caller.reaches(other.spec.owner))
        return replace(facts, reruns=newest_reruns(repeated, facts.reruns), dependents=visible)

    async def history(self, job_id: JobId, *, caller: Caller) -> tuple[HistoryEntry, ...]:
        """The history of a job, oldest first; empty for a child that its array has not created yet. Raises NotFound."""
        if await self._projected.job(job_id, visibility=caller.visibility) is None:
            raise await self.missing(job_id, caller=caller)
        return await self._store.history(job_id)

    async def missing(self, job_id: JobId, *, caller: Caller) -> NotFound:
        """The error for a job that does not exist, or that is hidden from the caller."""
        return await self._projected.missing(job_id, visibility=caller.visibility)

    async def tag(self, job_id: JobId, tags: Tags, *, caller: Caller) -> None:
        """Add or replace tags of a job. Raises NotFound; Invalid beyond 50 tags."""
        await self._must_exist(job_id, caller)
        await self._engine.update_tags(
            job_id, lambda job: replace(job, tags=rules.tagged(job.tags, tags)), caller=caller
        )

    async def untag(self, job_id: JobId, keys: Collection[str], *, caller: Caller) -> None:
        await self._must_exist(job_id, caller)
        await self._engine.update_tags(
            job_id, lambda job: replace(job, tags=rules.untagged(job.tags, keys)), caller=caller
        )

    async def _visible_jobs(self, ids: Sequence[JobId], caller: Caller) -> Mapping[JobId, Job]:
        """The jobs that are visible to the caller, with the projections of PendingOrdersView."""
        return await self._projected.jobs(ids, visibility=caller.visibility)

    async def _check_checkpoint(self, job_id: JobId, *, caller: Caller) -> None:
        job = (await self._visible_jobs([job_id], caller)).get(job_id)
        if job is not None and job.spec.checkpoints is None:
            raise Invalid(f"Job {job_id} has no checkpoint directory: no final checkpoint can be requested.")

    async def _deliver_stops(
        self, request: StopRequest, ids: Sequence[JobId], *, caller: Caller, expected: str | None = None
    ) -> Errors:
        """Deliver a request to all jobs at once. An error of one job does not affect the others."""
        try:
            stopped = await self._stoppable(ids, caller)
        except Unavailable as why:
            return dict.fromkeys(ids, why)
        targets, request = [node_of(job_id) for job_id in stopped], replace(request, user=caller.user)
        events = {node: request.event(node=node) for node in {node for _, node in targets}}
        requests = [(whole, events[node]) for whole, node in targets]
        errors = await self._engine.deliver_all(requests, caller=caller, expected=expected)
        return {job_id: why for job_id, why in zip(stopped, errors, strict=True) if why is not None}

    async def _stoppable(self, ids: Sequence[JobId], caller: Caller) -> Sequence[JobId]:
        """The ids that the caller may stop. For operators and admins, only ids of nodes are looked up."""
        looked_up = {job_id for job_id in ids if not caller.reaches_all or node_of(job_id)[1] is not None}
        if not looked_up:
            return ids
        visible = await self._visible_jobs([_row_of(job_id) for job_id in ids if job_id in looked_up], caller)
        return [job_id for job_id in ids if job_id not in looked_up or _may_be_stopped(job_id, visible)]

    async def _must_exist(self, job_id: JobId, caller: Caller) -> Job:
        job = (await self._visible_jobs([job_id], caller)).get(job_id)
        if job is None:
            raise NotFound(f"Job {job_id} not found.")
        return job

    async def _active_children(self, parent: JobId) -> str:
        """The children that are STARTING or RUNNING, as text for an error; at most MAX_CHILDREN_NAMED of them."""
        query = PageQuery(selection=JobSelection(parent=parent, statuses=ACTIVE), limit=MAX_CHILDREN_NAMED)
        found = [child.id for child in (await self._projected.list(query)).jobs]
        if not found:
            return "its children; none of them has a container at present"
        more = " and more" if len(found) >= MAX_CHILDREN_NAMED else ""
        return f"its children instead: {', '.join(found)}{more}"


def _job_or_node(job_id: JobId, jobs: Mapping[JobId, Job]) -> Job | None:
    """The job that an id names, or the view of the node that it names."""
    whole, node = node_of(job_id)
    job = jobs.get(whole)
    if node is None or job is None:
        return job
    return views.node_view(job, node) if views.node_exists(job, node) and node_id(whole, node) == job_id else None


def _row_of(job_id: JobId) -> JobId:
    """The job whose row decides about access: for a child its array, because the child may not be spawned yet."""
    whole, node = node_of(job_id)
    child = parent_of(whole) if node is None else None
    return whole if child is None else child[0]


def _may_be_stopped(job_id: JobId, visible: Mapping[JobId, Job]) -> bool:
    return _row_of(job_id) in visible if node_of(job_id)[1] is None else _job_or_node(job_id, visible) is not None
