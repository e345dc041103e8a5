"""The jobs around a job: those that it waits for, and those that wait for it, two steps each way."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from batchq.api.console.context import ConsoleContext
from batchq.api.console.job_words import job_title
from batchq.api.console.svg import STEPS, GraphNode
from batchq.domain.access.accounts import Caller
from batchq.domain.ids import JobId, job_path, node_of, short_id
from batchq.domain.job import Job
from batchq.domain.scheduling.dependencies import standing

MAX_NODES = 40
MAX_READ = 100  # jobs of one step that are read


class JobGraph(Struct, frozen=True, kw_only=True):
    """A job with the jobs around it."""

    #: The job itself first, then the nearest.
    nodes: tuple[GraphNode, ...]
    #: Pairs of ids: the job that is waited for, and the job that waits.
    edges: tuple[tuple[str, str], ...]
    #: Further jobs, beyond MAX_NODES.
    more: tuple[GraphNode, ...]
    #: Whether there may be jobs that were not read.
    is_cut: bool


class _Finder:
    """Finds jobs step by step. A job keeps the level at which it was found first."""

    def __init__(self, context: ConsoleContext, job: Job, caller: Caller) -> None:
        self._context, self._caller = context, caller
        self.found: dict[str, GraphNode] = {}
        self.edges: dict[tuple[str, str], None] = {}
        self.is_cut = False
        self.add([job.id], {job.id: job}, level=0)

    def add(self, ids: Iterable[JobId], jobs: Mapping[JobId, Job], *, level: int) -> None:
        for it in ids:
            if it not in self.found:
                self.found[it] = _node(it, jobs.get(it), level)

    async def before(self, jobs: Iterable[Job], *, level: int) -> tuple[Job, ...]:
        """Add the jobs that `jobs` wait or waited for, and return those that are visible."""
        wanted = {it.id: [other for other, _ in standing(it, {})] for it in jobs}
        ids = list(dict.fromkeys(other for others in wanted.values() for other in others))
        self.is_cut = self.is_cut or len(ids) > MAX_READ
        known = {it.id: it for it, _ in await self._context.jobs.describe(ids[:MAX_READ], caller=self._caller)}
        self.add(ids, known, level=level)
        self.edges |= {(other, job_id): None for job_id, others in wanted.items() for other in others}
        return tuple(known.values())

    async def after(self, jobs: Iterable[Job], *, level: int) -> tuple[Job, ...]:
        """Add the jobs that wait for `jobs`, as far as they are visible, and return them."""
        ids = [it.id for it in jobs]
        if not ids:
            return ()
        waiting = await self._context.jobs.dependents(*ids, limit=MAX_READ, caller=self._caller)
        self.is_cut = self.is_cut or len(waiting) == MAX_READ
        self.add([it.id for it in waiting], {it.id: it for it in waiting}, level=level)
        self.edges |= {(other, it.id): None for it in waiting for other, _ in standing(it, {}) if other in ids}
        return waiting


async def jobs_around(context: ConsoleContext, job: Job, *, caller: Caller) -> JobGraph:
    """The graph of a job; its only node is the job if it has no neighbours. Raises StoreFailed."""
    finder = _Finder(context, job, caller)
    before: tuple[Job, ...] = (job,) if node_of(job.id)[1] is None else ()
    after = before
    for step in range(1, STEPS + 1):
        before = await finder.before(before, level=-step)
        after = await finder.after(after, level=step)
    nodes = tuple(finder.found.values())
    return JobGraph(nodes=nodes[:MAX_NODES], edges=tuple(finder.edges), more=nodes[MAX_NODES:], is_cut=finder.is_cut)


def _node(job_id: JobId, job: Job | None, level: int) -> GraphNode:
    return GraphNode(
        job_id=job_id,
        name=short_id(job_id) if job is None else job_title(job),
        status=None if job is None else job.status,
        path=job_path(job_id),
        level=level,
    )
