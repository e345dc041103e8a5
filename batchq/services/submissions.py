"""The submission service: a JobRequest becomes a job, with the definition, the defaults, the policies and all checks.

The job definition is read once for each submission.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from uuid import uuid4

from msgspec.structs import replace

from batchq.domain.access import container_policy
from batchq.domain.access.accounts import Caller, Owner, UserName
from batchq.domain.catalog import JobDefinition, JobQueue, Tags
from batchq.domain.container import merge_pairs
from batchq.domain.enums import State
from batchq.domain.group_terms import group_terms
from batchq.domain.ids import ContainerEngineName, JobId, SubmissionKey, node_of
from batchq.domain.job import Job, JobSpec
from batchq.domain.job_request import JobRequest
from batchq.domain.overrides import merge
from batchq.domain.prices import Prices
from batchq.domain.scheduling.dependencies import invalid_overrides
from batchq.domain.task import DefinitionForm
from batchq.domain.training import MetricRule, check_mounts, check_rules, checkpoint_rules, metric_rules, training_plan
from batchq.domain.webhooks import notified_webhook
from batchq.engine.engine import Engine
from batchq.engine.mailbox import FindSubmission
from batchq.errors import BatchqError, Invalid, NotFound, Throttled
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.services.catalog import CatalogService
from batchq.services.client_requests import ORIGIN_TAGS, RERUN_OF
from batchq.services.inline_definitions import InlineDefinitions
from batchq.services.submit_warnings import SubmitWarnings
from batchq.services.training import patterns
from batchq.system.host import DiskGuard, NetworkDiskGuard
from batchq.system.throttling import ConcurrencyLimit

MAX_CLIENT_DOCUMENT = 32 * 1024  # bytes, about as much as AWS's largest SubmitJob request
MAX_COMPILING = 10_000  # requests of one user that wait: none is refused


class SubmissionService:
    """Submits jobs. The engine's loop creates them, in the order of its commits."""

    def __init__(
        self,
        *,
        engine: Engine,
        store: JobStore,
        catalog: CatalogService,
        clock: Clock,
        disk_guard: DiskGuard,
        checkpoint_guard: NetworkDiskGuard,
        stop_grace: timedelta,
        able_engines: Callable[[JobSpec], tuple[ContainerEngineName, ...]] | None = None,
        prices: Prices | None = None,
    ) -> None:
        """`able_engines`: the container engines that can run a job; empty: all. Raises Invalid if its queue has none.

        None: all container engines of this server run all jobs. `prices`: of new jobs; None: their costs are not known.
        """
        self._engine = engine
        self._store = store
        self._catalog = catalog
        self._inline = InlineDefinitions(definitions=catalog.definitions, clock=clock)
        self._warnings = SubmitWarnings(engine=engine, catalog=catalog, clock=clock)
        self._disk_guard = disk_guard
        #: Of the disk of the checkpoint directories.
        self._checkpoint_guard = checkpoint_guard
        self._stop_grace = stop_grace
        self._able_engines = able_engines
        self._prices = prices
        #: By user: the expressions of many requests would otherwise be compiled between two turns of the event loop.
        self._compiling = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_COMPILING)

    async def submit(self, request: JobRequest, *, caller: Caller, strict: bool = False) -> Job:
        """Create a job. It is durable when this method returns, and may already be in a later status than SUBMITTED.

        Later changes of its definition do not affect the job. `strict`: refuse a job with a warning. Raises
        DefinitionNotFound; Invalid, with AWS's texts; Throttled; Unavailable.

        A call that is repeated with the same key returns the first job, even if it would be refused by now.
        """
        try:
            return await self._submit(request, caller=caller, strict=strict)
        except Throttled:
            raise
        except BatchqError:
            if (first := await self._first_job(request.key)) is None:
                raise
            return first

    async def _first_job(self, key: SubmissionKey | None) -> Job | None:
        """The job of an earlier call with this key, also of one whose commit is under way; None: there is none."""
        if key is None:
            return None
        return await self._engine.mailbox.request(lambda answer: FindSubmission(key=key, answer=answer))

    async def _submit(self, request: JobRequest, *, caller: Caller, strict: bool) -> Job:
        if request.inline is None:
            definition = await self._definition(request, caller)
            queue = self._queue(request, caller)
        else:
            queue = self._queue(request, caller)
            # A refused request registers no definition.
            await self._check_expressions(metric_rules_of(request), caller=caller)
            container_policy.require_allowed_containers(request.inline, caller)
            definition = await self._inline.find_or_register(request.definition_name, request.inline, caller=caller)
        self._engine.submit_rate.check(caller.account)
        spec = await self._checked_spec(request, definition, queue, caller)
        if strict and (why := self.warning(spec, request.tags, caller=caller)) is not None:
            raise Invalid(why)
        return await self._engine.submit(
            job_id=request.job_id or JobId(str(uuid4())),
            spec=replace(spec, prices=self._prices),
            tags=request.tags,
            key=request.key,
            caller=caller,
        )

    async def check(self, request: JobRequest, unregistered: JobDefinition | None, *, caller: Caller) -> str | None:
        """Raise the errors of `submit`, without a change. Returns the warning.

        Dependencies, budgets, and the limits of accounts and queues are checked by `submit` alone. `unregistered`: the
        definition of the job; None: it is registered.
        """
        if unregistered is None:
            definition = await self._definition(request, caller)
        else:
            container_policy.require_allowed_containers(unregistered.nodes, caller)
            definition = replace(unregistered, owner=caller.owner)
        queue = self._queue(request, caller)
        return self.warning(await self._checked_spec(request, definition, queue, caller), request.tags, caller=caller)

    def warning(self, spec: JobSpec, tags: Tags, *, caller: Caller) -> str | None:
        """Its tags without a meaning, and why no compute environment of its queue could hold it; None: neither."""
        return self._warnings.warning(spec, tags, caller=caller)

    async def _definition(self, request: JobRequest, caller: Caller) -> JobDefinition:
        return await self._catalog.definitions.find(request.definition_name, request.definition_revision, caller=caller)

    def _queue(self, request: JobRequest, caller: Caller) -> JobQueue:
        """The queue. Raises the errors of `submit` that do not depend on the job definition."""
        self._disk_guard.check()
        document = request.client_document
        if document is not None and len(document.encode()) > MAX_CLIENT_DOCUMENT:
            raise Invalid(f"The description of the job must be at most {MAX_CLIENT_DOCUMENT} bytes of JSON.")
        queue = self._catalog.queues_of(caller).get(request.queue)
        if queue is None:
            raise NotFound(f"JobQueue {request.queue} not found.")
        if queue.state is not State.ENABLED:
            raise Invalid(f"JobQueue {request.queue} is disabled and accepts no jobs.")
        return queue

    async def _checked_spec(
        self, request: JobRequest, definition: JobDefinition, queue: JobQueue, caller: Caller
    ) -> JobSpec:
        """The specification of the job. Raises the errors of `submit` that depend on the job definition."""
        owner = caller.owner
        spec = build_spec(request, definition, owner=owner, stop_grace=self._stop_grace)
        await self._check_expressions(spec.metric_rules, caller=caller)
        container_policy.require_allowed_containers(spec.nodes, caller)
        # The jobs that the request repeats or copies, by the tag that names each.
        origins = {tag: node_of(JobId(value))[0] for tag, value in request.tags if tag in ORIGIN_TAGS}
        first_jobs = await self._store.jobs(list(origins.values()), visibility=caller.visibility) if origins else {}
        authors = authors_of(definition, origins, first_jobs, owner=owner)
        repeated = first_jobs.get(origins.get(RERUN_OF, JobId("")))
        group = spec.group if repeated is None else repeated.spec.group or spec.group
        spec = replace(spec, authors=authors, rerun_of=origins.get(RERUN_OF), group=group)
        if authors:
            container_policy.require_allowed_authors(spec.nodes, self._engine.accounts.author_policies(authors))
        if spec.checkpoints is not None:
            check_mounts(container_policy.containers_of(spec.nodes))
            await self._checkpoint_guard.check()
        if self._able_engines is not None:
            spec = replace(spec, engines=self._able_engines(spec))
        check_share(queue, spec)
        return spec

    async def _check_expressions(self, rules: Sequence[MetricRule], *, caller: Caller) -> None:
        """Raise Invalid for a regular expression that is not valid.

        To compile one takes up to 10 ms, and a job has up to 40: the event loop is yielded after each, and those of one
        user are compiled one after another.
        """
        if not rules:
            return
        async with self._compiling.of(caller.user):
            for rule in rules:
                patterns([rule])
                await asyncio.sleep(0)  # noqa: TID251 - yields the event loop, does not wait


def build_spec(request: JobRequest, definition: JobDefinition, *, owner: Owner, stop_grace: timedelta) -> JobSpec:
    """The job specification: the definition with the request's overrides, and the defaults.

    AWS: retryStrategy and timeout replace those of the definition as a whole. Raises Invalid, also for tags of batchq
    with an invalid value. The regular expressions of metrics are not checked.
    """
    parameters = merge_pairs(definition.parameters, request.parameters)
    work = merge(request, definition, parameters)
    if definition.nodes.form is DefinitionForm.NODES and request.array_size is not None:
        raise Invalid("A job of a multinode job definition cannot be an array job.")
    priority, propagate = request.scheduling_priority, request.propagate_tags
    propagate = definition.propagate_tags if propagate is None else propagate
    tags = merge_pairs(definition.tags, request.tags) if propagate else ()
    spec = JobSpec(
        owner=owner,
        name=request.name,
        queue=request.queue,
        definition=definition.ref,
        nodes=work.nodes,
        array_size=request.array_size,
        needs=work.needs,
        overrides=work.overrides,
        parameters=parameters,
        retry=request.retry or definition.retry,
        timeout=request.timeout or definition.timeout,
        depends_on=request.depends_on,
        scheduling_priority=definition.scheduling_priority if priority is None else priority,
        share_identifier=request.share_identifier,
        propagate_tags=propagate,
        invalid=invalid_overrides(work.overrides, len(tags)),
        client_document=request.client_document,
        stop_grace=request.stop_grace or stop_grace,
    )
    return _with_batchq_tags(spec, request) if request.tags or request.metric_rules else spec


def _with_batchq_tags(spec: JobSpec, request: JobRequest) -> JobSpec:
    """The specification with what the tags of batchq request."""
    return replace(
        spec,
        checkpoints=checkpoint_rules(request.tags),
        metric_rules=metric_rules_of(request),
        plan=training_plan(request.tags),
        group=group_terms(request.tags, spec.owner),
        notify=notified_webhook(request.tags),
    )


def authors_of(
    definition: JobDefinition, origins: Mapping[str, JobId], first_jobs: Mapping[JobId, Job], *, owner: Owner
) -> tuple[Owner, ...]:
    """The authors of the new job. Raises Invalid if one is missing.

    `origins`: the jobs that it repeats or copies. `first_jobs`: those of them that are visible to its owner.
    """
    authors = [definition.author]
    for tag, job_id in origins.items():
        if job_id not in first_jobs:
            raise Invalid(f"Job {job_id} of the tag {tag} not found.")
        authors += [first_jobs[job_id].spec.owner, *first_jobs[job_id].spec.authors]
    return tuple([author for author in dict.fromkeys(authors) if author != owner])


def metric_rules_of(request: JobRequest) -> tuple[MetricRule, ...]:
    """The rules of the request and of its tags. Raises Invalid; the regular expressions are not checked."""
    rules = (*request.metric_rules, *metric_rules(request.tags))
    if rules:
        check_rules(rules)
    return rules


def check_share(queue: JobQueue, spec: JobSpec) -> None:
    """Check shareIdentifier and schedulingPriority. Raises Invalid.

    AWS: a queue with a scheduling policy requires both; a queue without one forbids shareIdentifier.
    """
    if queue.policy is None:
        if spec.share_identifier:
            raise Invalid("shareIdentifier must not be specified: the job queue has no scheduling policy.")
        return
    if not spec.share_identifier:
        raise Invalid("shareIdentifier must be specified.")
    if spec.scheduling_priority is None:
        raise Invalid("Either schedulingPriority in job definition or schedulingPriorityOverride should be specified.")
