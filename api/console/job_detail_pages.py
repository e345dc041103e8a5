"""The pages of one job: why it is where it is, its times, output, neighbours and request."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from batchq.api.console.children_page import children_part
from batchq.api.console.job_timeline import attempts_picture, critical_path
from batchq.api.console.job_words import JOB, NODE, entry_words, job_crumbs, job_id_of, job_title
from batchq.api.console.log_colours import ColourBudget
from batchq.api.console.log_page import empty_sentence
from batchq.api.console.memory_offer import memory_offer
from batchq.api.console.pages import FRAGMENT, Page, PageTable
from batchq.api.console.svg import STEPS, GraphNode, graph
from batchq.api.console.use_pictures import use_pictures
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.enums import FINISHED, Status
from batchq.domain.explanation.started_reasons import NotExitingReason
from batchq.domain.ids import JobId, job_path, node_of, short_id
from batchq.domain.job import Job
from batchq.domain.lifecycle import views
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.views import shown_container_reason
from batchq.domain.scheduling.dependencies import standing
from batchq.domain.stop_messages import ORDER_WORDS
from batchq.domain.task import DefinitionForm
from batchq.domain.wording import duration_words
from batchq.ports.history import HistoryEntry
from batchq.ports.logs import StoredLine
from batchq.services.job_log import BEGINNING
from batchq.services.job_views import JobView
from batchq.services.log_windows import JobLog

LOG_LINES = 200  # the last ones
LAST_LINES = 5  # beside the reason of a failed job
MAX_NODES_LISTED = 100  # of a multi-node parallel job
MAX_CHECKPOINTS = 20  # the newest ones
MAX_NODES = 40
MAX_READ = 100  # jobs of one step that are read
pages = PageTable()


class JobOutput(Struct, frozen=True, kw_only=True):
    """The end of the log of a job."""

    log: JobLog
    lines: tuple[StoredLine, ...]
    #: The `after` with which the script continues to read; None: no line can follow.
    next: str | None


@pages.get(JOB, Permission.SELF)
@pages.get(NODE, Permission.SELF)
async def job_page(parts: Parts, visit: Call[None]) -> Page:
    caller, job_id = visit.caller, job_id_of(visit.path)
    job = await parts.jobs.find(job_id, caller=caller)
    if job is None and await parts.checkpoints.outlive(job_id, caller=caller):
        return await _remaining_checkpoints(parts, job_id, caller)
    if job is None:
        raise await parts.jobs.missing(job_id, caller=caller)
    whole = node_of(job_id)[0]
    view = await parts.views.explained(job, dependents=MAX_READ, caller=caller)
    stays = _stays(view.history, parts.clock.now())
    around = await jobs_around(parts, view, caller=caller)
    log = await _log(parts, job, caller)
    view = await parts.views.with_results(view, newest=MAX_CHECKPOINTS, caller=caller)
    is_whole = FRAGMENT not in visit.http.headers
    values = {
        "job": job,
        "view": view,
        "whole_id": whole,
        "is_node": whole != job_id,
        "is_array": is_parent(job),
        "queues": parts.catalog.queues,
        "has_log": _has_log(job),
        "stays": {at: duration_words(stay) for at, (_, stay) in stays.items()},
        "is_whole": is_whole,
        **await _pictures(parts, job, view.history, caller),
        "output": None if log is None else await _output(parts, job, log, LOG_LINES if is_whole else 1),
        "crumbs": job_crumbs(job.id, job.spec.name),
        "around": around,
        "graph": graph(around.nodes, around.edges, "Dependencies") if len(around.nodes) > 1 else None,
        "nodes": views.node_views(job)[:MAX_NODES_LISTED] if whole == job_id else (),
        "may_force_fail": whole == job_id
        and caller.has(Permission.MAINTENANCE)
        and isinstance(view.why, NotExitingReason),
        "entry_words": entry_words,
        "container_reason": shown_container_reason,
        "empty_sentence": empty_sentence,
        **await _beside_why(parts, view, log, caller),
    }
    return Page(template="job.html", title=job_title(job), values=values, tab=f"{job.status} {job_title(job)}")


async def _pictures(parts: Parts, job: Job, history: Sequence[HistoryEntry], caller: Caller) -> Mapping[str, object]:
    """The timeline, the children, the use of the attempt under way, and the critical path; None for what is missing."""
    return {
        "timeline": attempts_picture(job, history, parts.clock.now()),
        "children": await children_part(parts, job, caller=caller) if is_parent(job) else None,
        "use_pictures": use_pictures(job, parts.jobs.use_points(job)),
        "path_of_dependencies": await critical_path(parts, job, caller=caller),
    }


async def _remaining_checkpoints(parts: Parts, job_id: JobId, caller: Caller) -> Page:
    """The checkpoints of a job whose record was removed."""
    found = await parts.checkpoints.list(job_id, caller=caller)
    results: dict[str, object] = {"cost": None, "metrics": {}, "checkpoints": found[: -MAX_CHECKPOINTS - 1 : -1]}
    return Page(template="removed_job.html", title=f"Job {job_id}", values={"job_id": job_id, "view": results})


def _stays(history: Sequence[HistoryEntry], now: datetime) -> dict[int, tuple[Status, timedelta]]:
    """The status of an entry and how long the job stayed in it, by the position of the entry; the present until `now`.

    Without the final status, and without entries that are not about a status.
    """
    entered = [(at, entry) for at, entry in enumerate(history) if entry.is_status]
    ends = [entry.at for _, entry in entered[1:]] + [now]
    return {
        at: (entry.status, end - entry.at)
        for (at, entry), end in zip(entered, ends, strict=False)
        if entry.status not in FINISHED
    }


def _has_log(job: Job) -> bool:
    """Whether the log is that of the job itself. The children of an array and the nodes of a job have their own."""
    return not is_parent(job) and (job.spec.nodes.form is not DefinitionForm.NODES or node_of(job.id)[1] is not None)


async def _log(parts: Parts, job: Job, caller: Caller) -> JobLog | None:
    """The log of the newest attempt; None for a job whose parts have logs."""
    if not _has_log(job):
        return None
    if node_of(job.id)[1] is None and job.latest_attempt is not None:
        return await parts.log_windows.of_job(job.id, job, attempt=None, container=None)
    return await parts.log_windows.find(job.id, attempt=None, container=None, caller=caller)


async def _output(parts: Parts, job: Job, log: JobLog, most: int) -> JobOutput:
    """The last `most` lines. An update shows no lines: the script reads them."""
    follows = job.status not in FINISHED and log.captured
    if log.tag is None or not log.has_run:
        return JobOutput(log=log, lines=(), next=BEGINNING if follows else None)
    page = await parts.log_windows.last(log.tag, limit=most)
    return JobOutput(log=log, lines=page.lines, next=f"{log.tag.attempt}.{page.end}" if follows else None)


async def _beside_why(parts: Parts, view: JobView, log: JobLog | None, caller: Caller) -> dict[str, object]:
    """What the page shows with the reason of the status: orders, the last lines of output, an offer of more memory."""
    job = view.job
    return {
        "order_words": ORDER_WORDS,
        "last_lines": await _last_lines(parts, job, log),
        "more_memory": None if view.rerun else memory_offer(parts, [job], {"job": job.id}, caller=caller),
        "coloured": ColourBudget().coloured,
    }


async def _last_lines(parts: Parts, job: Job, log: JobLog | None) -> tuple[StoredLine, ...]:
    """The end of the output of a failed job, without empty lines; empty without an output."""
    if job.status is not Status.FAILED or log is None or log.tag is None or not log.has_run:
        return ()
    page = await parts.log_windows.last(log.tag, limit=4 * LAST_LINES)
    return tuple(line for line in page.lines if line.message.strip())[-LAST_LINES:]


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

    def __init__(self, parts: Parts, job: Job, caller: Caller) -> None:
        self._parts, self._caller = parts, caller
        self.found: dict[str, GraphNode] = {}
        self.edges: dict[tuple[str, str], None] = {}
        self.is_cut = False
        self.add([job.id], {job.id: job}, level=0)

    def add(self, ids: Iterable[JobId], jobs: Mapping[JobId, Job], *, level: int) -> None:
        for job_id in ids:
            if job_id not in self.found:
                self.found[job_id] = _node(job_id, jobs.get(job_id), level)

    async def before(self, jobs: Iterable[Job], *, level: int) -> tuple[Job, ...]:
        """Add the jobs that `jobs` wait or waited for, and return those that are visible."""
        wanted = {job.id: [other for other, _ in standing(job, {})] for job in jobs}
        ids = list(dict.fromkeys(other for others in wanted.values() for other in others))
        self.is_cut = self.is_cut or len(ids) > MAX_READ
        known = {job.id: job for job in await self._parts.jobs.describe(ids[:MAX_READ], caller=self._caller)}
        self.add(ids, known, level=level)
        self.edges |= {(other, job_id): None for job_id, others in wanted.items() for other in others}
        return tuple(known.values())

    async def after(self, jobs: Iterable[Job], *, level: int) -> tuple[Job, ...]:
        """Add the jobs that wait for `jobs`, as far as they are visible, and return them."""
        ids = [job.id for job in jobs]
        waiting = await self._parts.jobs.dependents(*ids, limit=MAX_READ, caller=self._caller) if ids else ()
        return self.add_waiting(waiting, ids, level=level)

    def add_waiting(self, waiting: tuple[Job, ...], ids: Collection[JobId], *, level: int) -> tuple[Job, ...]:
        """Add the jobs `waiting`, which wait for the jobs `ids`, and return them."""
        self.is_cut = self.is_cut or len(waiting) == MAX_READ
        self.add([job.id for job in waiting], {job.id: job for job in waiting}, level=level)
        self.edges |= {(other, job.id): None for job in waiting for other, _ in standing(job, {}) if other in ids}
        return waiting


async def jobs_around(parts: Parts, view: JobView, *, caller: Caller) -> JobGraph:
    """The graph of a job; its only node is the job if it has no neighbours. Raises StoreFailed.

    `view`: read with MAX_READ dependents at most.
    """
    job = view.job
    finder = _Finder(parts, job, caller)
    before = await finder.before((job,) if node_of(job.id)[1] is None else (), level=-1)
    after = finder.add_waiting(view.dependents, [job.id], level=1)
    for step in range(2, STEPS + 1):
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
