"""Jobs: submit, describe, list, cancel, terminate, in domain terms.

Jobs as users see them: as they are stored, with what orders to arrays have decided, and with why no job starts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from batchq.disk_guard import DiskGuard
from batchq.domain import catalog_rules as rules
from batchq.domain import events as on
from batchq.domain.access import container_policy
from batchq.domain.access.accounts import Caller, Owner, Visibility
from batchq.domain.catalog import JobDefinition, JobQueue, State, Tags
from batchq.domain.container import Overrides, effective, merge
from batchq.domain.ids import JobId, QueueName, node_id, node_of, parent_of
from batchq.domain.job import (
    ACTIVE,
    FINISHED,
    Dependency,
    Job,
    JobSpec,
    Need,
    RetryStrategy,
)
from batchq.domain.lifecycle import arrays, node_view
from batchq.domain.lifecycle.array_view import Sealed
from batchq.domain.scheduling.capacity import stands_in_line
from batchq.domain.scheduling.dependencies import invalid
from batchq.domain.task import Nodes, Task, effective_nodes, effective_task
from batchq.engine.engine import Engine
from batchq.errors import BatchqError, Invalid, NotFound, Unavailable
from batchq.ports.catalog import NeedQuery, Snapshot
from batchq.ports.jobs import ChildQuery, JobQuery, JobStore, Moment, SubmissionKey
from batchq.services.catalog import CatalogService

MOST_TOLD = 10

Order = type[on.CancelRequested] | type[on.TerminateRequested]

Refused = Mapping[JobId, BatchqError]


class Submission(Struct, frozen=True, kw_only=True):
    """SubmitJob in domain terms. `definition_revision` None is the newest ACTIVE one; None elsewhere is not said.

    `task` and `nodes` are the definition's with what SubmitJob changes of them; `overrides` then are all of its changes
    together, to be measured. `needs` take the place of the definition's.
    """

    name: str
    queue: QueueName
    definition_name: str
    definition_revision: int | None = None
    overrides: Overrides
    task: Task | None = None
    nodes: Nodes | None = None
    array_size: int | None = None
    needs: tuple[Need, ...] | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy | None = None
    timeout: timedelta | None = None
    depends_on: tuple[Dependency, ...] = ()
    tags: Tags = ()
    propagate_tags: bool | None = None
    share_identifier: str | None = None
    scheduling_priority: int | None = None
    key: SubmissionKey | None = None


class JobService:
    """Every request is decided by the engine's loop, in the order of its commits.

    A job that its caller does not reach is to him as if it were not there.
    """

    def __init__(
        self, *, engine: Engine, store: JobStore, catalog: CatalogService, floor: DiskGuard, stop_grace: timedelta
    ) -> None:
        self._engine = engine
        self._store = store
        self._shown = PendingOrdersView(store, engine.sealed, engine.start_obstacle)
        self._catalog = catalog
        self._floor = floor
        self._stop_grace = stop_grace

    async def submit(self, submission: Submission, *, caller: Caller) -> Job:
        """A durable job, SUBMITTED or already further. Raises Invalid with AWS's texts, TooOften, and Unavailable.

        The definition is taken as it is now; what becomes of it later does not reach the job.
        """
        self._floor.check()
        self._engine.submit_rate.check(caller.account)
        queue = self._enabled(submission.queue, caller)
        definition = await self._catalog.definitions.find(
            submission.definition_name, submission.definition_revision, caller=caller
        )
        spec = specify(submission, definition, owner=caller.owner, stop_grace=self._stop_grace)
        container_policy.check(spec, caller)
        check_share(queue, spec)
        return await self._engine.submit(
            job_id=JobId(str(uuid4())), spec=spec, tags=submission.tags, key=submission.key, caller=caller
        )

    async def describe(self, ids: Sequence[JobId], *, caller: Caller) -> tuple[tuple[Job, JobDefinition | None], ...]:
        """Those that exist, in the order asked for, each once, with the definition it was made from."""
        jobs = await self._reached([node_of(job_id)[0] for job_id in ids], caller)
        found = [it for job_id in dict.fromkeys(ids) if (it := _named(job_id, jobs)) is not None]
        refs = {job.spec.definition for job in found}
        definitions = {ref: await self._catalog.definitions.get(ref) for ref in refs}
        return tuple((job, definitions[job.spec.definition]) for job in found)

    async def list(self, query: JobQuery, *, caller: Caller) -> tuple[Job, ...]:
        """One page. Raises NotFound for an unknown queue."""
        if query.queue not in self._catalog.queues_of(caller):
            raise NotFound(f"JobQueue {query.queue} not found.")
        return await self._shown.list(replace(query, reach=caller.reach))

    async def list_children(self, query: ChildQuery, *, caller: Caller) -> tuple[Job, ...]:
        """One page; empty for what is no array."""
        return await self._shown.list_children(query) if await self._reached([query.parent], caller) else ()

    async def list_needing(self, query: NeedQuery, *, caller: Caller) -> tuple[Job, ...]:
        """One page. Raises NotFound for an unknown resource."""
        rules.must_exist("ConsumableResource", [query.resource], self._catalog.consumables)
        return await self._shown.list_needing(replace(query, reach=caller.reach))

    async def list_nodes(self, job_id: JobId, *, caller: Caller) -> tuple[Job, ...]:
        """The nodes of a gang, each as a job; none for what is no gang."""
        job = (await self._reached([job_id], caller)).get(job_id)
        return () if job is None else node_view.views(job)

    async def snapshot(self, queue: QueueName, *, caller: Caller) -> Snapshot:
        """Who is next in a queue, and what its jobs hold. Raises NotFound for an unknown queue.

        Who does not reach all of them is told of those that are his, and of no shares: others gave them their names.
        """
        rules.must_exist("JobQueue", [queue], self._catalog.queues_of(caller))
        told = await self._engine.snapshot(queue)
        if caller.reaches_all:
            return told
        reached = await self._reached([job_id for job_id, _ in told.jobs], caller)
        return replace(told, jobs=tuple(it for it in told.jobs if it[0] in reached), shares=())

    async def cancel(self, job_id: JobId, reason: str, *, caller: Caller) -> None:
        """End a job that is not STARTING yet; to one that is, forbid another attempt. An unknown id changes nothing."""
        _refuse(await self.cancel_many([job_id], reason, caller=caller))

    async def cancel_many(self, ids: Sequence[JobId], reason: str, *, caller: Caller) -> Refused:
        """As `cancel`, each for itself. Those that could not be, and why."""
        return await self._order(on.CancelRequested, ids, reason=reason, caller=caller)

    async def terminate(self, job_id: JobId, reason: str, *, caller: Caller) -> None:
        """Order a stop, whatever the status. Durable when this returns; the container goes in its own time."""
        _refuse(await self.terminate_many([job_id], reason, caller=caller))

    async def terminate_many(self, ids: Sequence[JobId], reason: str, *, caller: Caller) -> Refused:
        """As `terminate`, each for itself. Those that could not be, and why."""
        return await self._order(on.TerminateRequested, ids, reason=reason, caller=caller)

    async def resume(self, *, purge: bool, new_engine: bool, caller: Caller) -> None:
        """Let data that was restored from a backup go on; what no job owns is cleared away, or left alone for good.

        `new_engine`: first of all the container engine that answers is accepted, instead of the one that jobs run on.
        """
        await self._engine.resume(purge=purge, new_engine=new_engine, caller=caller)

    async def force_fail(self, job_id: JobId, reason: str, *, caller: Caller) -> Job:
        """The last resort: end a job whose container does not, and free its room. Raises NotFound, and Invalid.

        Answers the job as it is then; one that was over has not changed.
        """
        whole, node = node_of(job_id)
        if node is not None:
            raise Invalid(f"Job {job_id} is a node: force-fail its job {whole} as a whole.")
        job = await self._must_exist(job_id, caller)
        if job.status in FINISHED:
            return job
        if arrays.is_parent(job):
            raise Invalid(f"Job {job_id} is an array: force-fail {await self._active_children(job_id)}.")
        await self._engine.deliver(job_id, on.ForceFailed(reason=reason), caller=caller)
        return await self._must_exist(job_id, caller)

    async def history(self, job_id: JobId, *, caller: Caller) -> tuple[Moment, ...]:
        """The walk of a job through the statuses, empty for an unknown one."""
        return await self._store.history(job_id) if await self._reached([job_id], caller) else ()

    async def tag(self, job_id: JobId, tags: Tags, *, caller: Caller) -> None:
        """Lay tags over a job's. Raises NotFound, and Invalid beyond 50 of them."""
        await self._must_exist(job_id, caller)
        await self._engine.amend(job_id, lambda it: replace(it, tags=rules.tagged(it.tags, tags)), caller=caller)

    async def untag(self, job_id: JobId, keys: Collection[str], *, caller: Caller) -> None:
        await self._must_exist(job_id, caller)
        await self._engine.amend(job_id, lambda it: replace(it, tags=rules.untagged(it.tags, keys)), caller=caller)

    async def _reached(self, ids: Sequence[JobId], caller: Caller) -> Mapping[JobId, Job]:
        """Those of them that are there for the caller, as he is shown them."""
        return await self._shown.jobs(ids, reach=caller.reach)

    async def _order(self, order: Order, ids: Sequence[JobId], *, reason: str, caller: Caller) -> Refused:
        """All at once: what each of them comes to is none of the others' business."""
        try:
            stopped = await self._stoppable(ids, caller)
        except Unavailable as why:
            return dict.fromkeys(ids, why)
        named = [node_of(it) for it in stopped]
        orders = {node: order(reason=reason, node=node) for node in {node for _, node in named}}
        became = await self._engine.deliver_all([(whole, orders[node]) for whole, node in named], caller=caller)
        return {job_id: why for job_id, why in zip(stopped, became, strict=True) if why is not None}

    async def _stoppable(self, ids: Sequence[JobId], caller: Caller) -> Sequence[JobId]:
        """Who reaches all need be shown nothing, but whether a node that he names is there."""
        asked = {it for it in ids if not caller.reaches_all or node_of(it)[1] is not None}
        if not asked:
            return ids
        there = await self._reached([_holder(it) for it in ids if it in asked], caller)
        return [it for it in ids if it not in asked or _may_be_stopped(it, there)]

    async def _must_exist(self, job_id: JobId, caller: Caller) -> Job:
        job = (await self._reached([job_id], caller)).get(job_id)
        if job is None:
            raise NotFound(f"Job {job_id} not found.")
        return job

    async def _active_children(self, parent: JobId) -> str:
        """Those that have containers, in words; not all of very many."""
        asked = [ChildQuery(parent=parent, status=status, limit=MOST_TOLD) for status in sorted(ACTIVE)]
        found = [child.id for query in asked for child in await self._shown.list_children(query)]
        if not found:
            return "its children, of which none has a container now"
        return f"its children instead: {', '.join(found[:MOST_TOLD])}{' and more' * (len(found) >= MOST_TOLD)}"

    def _enabled(self, name: QueueName, caller: Caller) -> JobQueue:
        queue = self._catalog.queues_of(caller).get(name)
        if queue is None:
            raise NotFound(f"JobQueue {name} not found.")
        if queue.state is not State.ENABLED:
            raise Invalid(f"JobQueue {name} is disabled and takes no jobs.")
        return queue


def _named(job_id: JobId, jobs: Mapping[JobId, Job]) -> Job | None:
    """The job that an id names, or the view of the node that it names."""
    whole, node = node_of(job_id)
    job = jobs.get(whole)
    if node is None or job is None:
        return job
    return node_view.view(job, node) if node_view.exists(job, node) and node_id(whole, node) == job_id else None


def _holder(job_id: JobId) -> JobId:
    """By whom it is known whose it is: a child that its array has not spawned yet is its array's owner's."""
    whole, node = node_of(job_id)
    child = parent_of(whole) if node is None else None
    return whole if child is None else child[0]


def _may_be_stopped(job_id: JobId, there: Mapping[JobId, Job]) -> bool:
    return _holder(job_id) in there if node_of(job_id)[1] is None else _named(job_id, there) is not None


def _refuse(refused: Refused) -> None:
    for why in refused.values():
        raise why


def specify(submission: Submission, definition: JobDefinition, *, owner: Owner, stop_grace: timedelta) -> JobSpec:
    """Submission over definition. AWS: retryStrategy and timeout replace the definition's as a whole."""
    parameters = merge(definition.parameters, submission.parameters)
    priority = submission.scheduling_priority
    propagate = submission.propagate_tags
    task, gang = submission.task or definition.task, submission.nodes or definition.nodes
    task = task and effective_task(task, {}, parameters)
    gang = gang and effective_nodes(gang, {}, parameters)
    several = gang or task
    propagate = definition.propagate_tags if propagate is None else propagate
    tags = merge(definition.tags, submission.tags) if propagate else ()
    return JobSpec(
        owner=owner,
        name=submission.name,
        queue=submission.queue,
        definition=definition.ref,
        container=(
            several.leading.spec if several else effective(definition.container, submission.overrides, parameters)
        ),
        task=task,
        nodes=gang,
        array_size=submission.array_size,
        needs=definition.needs if submission.needs is None else submission.needs,
        overrides=submission.overrides,
        parameters=parameters,
        retry=submission.retry or definition.retry,
        timeout=submission.timeout or definition.timeout,
        depends_on=submission.depends_on,
        scheduling_priority=definition.scheduling_priority if priority is None else priority,
        share_identifier=submission.share_identifier,
        propagate_tags=propagate,
        invalid=invalid(submission.overrides, len(tags)),
        stop_grace=stop_grace,
    )


def check_share(queue: JobQueue, spec: JobSpec) -> None:
    """AWS: a queue that shares asks of each job whose it is and how urgent; one that does not, forbids the first."""
    if queue.policy is None:
        if spec.share_identifier:
            raise Invalid("shareIdentifier must not be specified: the job queue has no scheduling policy.")
        return
    if not spec.share_identifier:
        raise Invalid("shareIdentifier must be specified.")
    if spec.scheduling_priority is None:
        raise Invalid("Either schedulingPriority in job definition or schedulingPriorityOverride should be specified.")


class PendingOrdersView:
    """What orders have decided is taken before the store is read: who was once shown as over is, ever after.

    `sealed` tells it as last saved. `obstacle` is the statusReason of RUNNABLE jobs while none can start, or None: it
    holds for all of them at once, so it is not stored with each.
    """

    def __init__(self, store: JobStore, sealed: Callable[[], Sealed], obstacle: Callable[[], str | None]) -> None:
        self._store = store
        self._sealed = sealed
        self._obstacle = obstacle

    async def jobs(self, ids: Sequence[JobId], *, reach: Visibility | None = None) -> Mapping[JobId, Job]:
        sealed = self._sealed()
        found = await self._store.jobs(ids, reach=reach)
        return {it.id: it for it in self._shown(sealed, tuple(found.values()))}

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return self._shown(sealed, await self._store.list(replace(query, over=sealed.over)))

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return self._shown(sealed, await self._store.list_needing(replace(query, over=sealed.over)))

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]:
        sealed = self._sealed()
        return self._shown(sealed, await self._store.list_children(replace(query, over=query.parent in sealed.parents)))

    def _shown(self, sealed: Sealed, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        shown = tuple(map(sealed.shown, jobs)) if sealed.parents else jobs
        obstacle = self._obstacle()
        if obstacle is None:
            return shown
        return tuple(replace(it, status_reason=obstacle) if stands_in_line(it) else it for it in shown)
