"""JobView: what is known of a job now, as one caller sees it. DescribeJobs, lists, details and pages are made of it.

A JobView has the parts that its reader asked for, because each part costs reads of its own.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import JobDefinition
from batchq.domain.cost import Cost
from batchq.domain.explanation.explanation import Explanation
from batchq.domain.ids import JobId, node_of
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.training import MetricValue
from batchq.ports.checkpoints import Checkpoint
from batchq.ports.history import HistoryEntry
from batchq.services.catalog_tables import JobDefinitionService
from batchq.services.costs import CostService
from batchq.services.explanations import ExplanationService
from batchq.services.job_reads import JobSearchService
from batchq.services.jobs import JobService
from batchq.services.training import CheckpointService

MAX_DEPENDENTS = 50


class JobView(Struct, frozen=True, kw_only=True):
    """A job with what is known of it. A part that was not read is None or empty."""

    job: Job
    #: None also if the definition is not stored any more.
    definition: JobDefinition | None = None
    #: Why the job waits, what it does, or why it failed.
    why: Explanation | None = None
    #: The newest job that repeats this finished job or, without one, its array; None without either.
    rerun: JobId | None = None
    #: Visible jobs that wait for this one, up to the number that the method states or takes.
    dependents: tuple[Job, ...] = ()
    #: Oldest first.
    history: tuple[HistoryEntry, ...] = ()
    #: None also for a job without prices, and for an array, whose children all had to be read.
    cost: Cost | None = None
    #: The last value of each metric, by name.
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    #: The newest first.
    checkpoints: tuple[Checkpoint, ...] = ()


class JobViewService:
    """Reads the parts of JobViews. Jobs that are not visible to the caller are treated as missing."""

    def __init__(
        self,
        *,
        jobs: JobService,
        definitions: JobDefinitionService,
        explanations: ExplanationService,
        search: JobSearchService,
        costs: CostService,
        checkpoints: CheckpointService,
    ) -> None:
        self._jobs = jobs
        self._definitions = definitions
        self._explanations = explanations
        self._search = search
        self._costs = costs
        self._checkpoints = checkpoints

    async def described(self, ids: Sequence[JobId], *, caller: Caller) -> tuple[JobView, ...]:
        """The jobs with their definitions, in the given order without duplicates. Unknown ids are omitted."""
        jobs = await self._jobs.describe(ids, caller=caller)
        definitions = {ref: await self._definitions.get(ref) for ref in {job.spec.definition for job in jobs}}
        return tuple(JobView(job=job, definition=definitions[job.spec.definition]) for job in jobs)

    async def listed(
        self,
        jobs: Sequence[Job],
        *,
        explained: bool = True,
        reruns: Mapping[JobId, JobId] | None = None,
        caller: Caller,
    ) -> tuple[JobView, ...]:
        """The jobs with their reruns and, for the first MAX_EXPLAINED of them, explanations.

        `reruns`: of these jobs; None: they are read.
        """
        why = await self._explanations.explain(jobs, caller=caller) if explained else {}
        reruns = await self._search.reruns(jobs) if reruns is None else reruns
        return tuple(JobView(job=job, why=why.get(job.id), rerun=reruns.get(job.id)) for job in jobs)

    async def detailed(self, job_id: JobId, *, caller: Caller) -> JobView:
        """A job, a child or a node, with the jobs that wait for it and its rerun. Raises NotFound."""
        job = await self._jobs.find(job_id, caller=caller)
        if job is None:
            raise await self._jobs.missing(job_id, caller=caller)
        dependents = await self._jobs.dependents(job_id, limit=MAX_DEPENDENTS, caller=caller)
        return JobView(job=job, dependents=dependents, rerun=await self._rerun(job))

    async def explained(self, job: Job, *, dependents: int, caller: Caller) -> JobView:
        """A visible job with its explanation, its rerun, its history and its dependents.

        The history of a node is that of its whole job. `dependents`: see `JobService.facts`. Raises NotFound.
        """
        if node_of(job.id)[1] is None:
            why = await self._explanations.why_of(job, caller=caller)
        else:
            why = await self._explanations.why(job.id, caller=caller)
        facts = await self._jobs.facts(job, dependents=dependents, caller=caller)
        return JobView(
            job=job, why=why, history=facts.history, rerun=facts.reruns.get(job.id), dependents=facts.dependents
        )

    async def with_results(self, view: JobView, *, newest: int, caller: Caller) -> JobView:
        """The view with cost, metrics and the `newest` checkpoints. Raises NotFound, Throttled and StoreFailed."""
        job, spec = view.job, view.job.spec
        if is_parent(job):
            return view
        view = await self.with_cost(view, caller=caller)
        metrics = await self._costs.metrics.current(job, caller=caller) if spec.reports_metrics else {}
        found = await self._checkpoints.list(job.id, caller=caller) if spec.checkpoints is not None else ()
        return replace(view, metrics=metrics, checkpoints=found[: -newest - 1 : -1])

    async def with_cost(self, view: JobView, *, caller: Caller) -> JobView:
        """The view with its cost. Raises NotFound, Throttled and StoreFailed."""
        if view.job.spec.prices is None or is_parent(view.job):
            return view
        return replace(view, cost=await self._costs.of_job(view.job.id, caller=caller))

    async def _rerun(self, job: Job) -> JobId | None:
        return (await self._search.reruns([job])).get(job.id)
