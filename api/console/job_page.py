"""The page of one job: why it is where it is, its times, attempts, output, neighbours and request."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from batchq.api.console.context import ConsoleContext
from batchq.api.console.job_graph import jobs_around
from batchq.api.console.job_paths import JOB, NODE, job_id_of
from batchq.api.console.job_words import entry_words, job_title
from batchq.api.console.log_colours import coloured
from batchq.api.console.log_page import BEGINNING, empty_sentence
from batchq.api.console.pages import FRAGMENT, Page, PageTable, Visit
from batchq.api.console.svg import StatusSpan, graph, time_axis
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.cost import Cost, rounded
from batchq.domain.explanation.words import duration_words
from batchq.domain.ids import node_of
from batchq.domain.job import ACTIVE, FINISHED, Job, Status
from batchq.domain.lifecycle import views
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.views import shown_container_reason
from batchq.domain.stop_words import ORDER_WORDS
from batchq.domain.training import MetricValue
from batchq.ports.checkpoints import Checkpoint
from batchq.ports.history import HistoryEntry
from batchq.ports.logs import StoredLine
from batchq.services.job_log import JobLog

LOG_LINES = 200  # the last ones
MAX_SPANS = 100  # of the time axis, the last ones
MAX_NODES_LISTED = 100  # of a multi-node parallel job
MAX_CHECKPOINTS = 20  # the newest ones
pages = PageTable()


class JobOutput(Struct, frozen=True, kw_only=True):
    """The end of the log of a job."""

    log: JobLog
    lines: tuple[StoredLine, ...]
    #: The `after` with which the script continues to read; None: no line can follow.
    next: str | None


class JobResults(Struct, frozen=True, kw_only=True):
    """What a job has cost and produced."""

    #: None: the job was submitted without prices, or is an array, whose children all had to be read.
    cost: Cost | None
    metrics: Mapping[str, MetricValue]
    #: The newest first.
    checkpoints: Sequence[Checkpoint]


@pages.get(JOB)
@pages.get(NODE)
async def job_page(context: ConsoleContext, visit: Visit[None]) -> Page:
    caller, job_id = visit.caller, job_id_of(visit.path)
    job = await context.jobs.find(job_id, caller=caller)
    if job is None:
        raise await context.jobs.missing(job_id, caller=caller)
    now, whole = context.clock.now(), node_of(job_id)[0]
    history = await context.jobs.history(whole, caller=caller)
    around = await jobs_around(context, job, caller=caller)
    is_fragment = FRAGMENT in visit.http.headers
    values = {
        "job": job,
        "whole_id": whole,
        "is_node": whole != job_id,
        "is_array": is_parent(job),
        "has_log": _has_log(job),
        "why": await context.explanations.why(job_id, caller=caller),
        "history": history,
        "stays": stays(history, now),
        "axis": _axis(history, now),
        "output": None if is_fragment else await _output(context, job, caller),
        "around": around,
        "graph": graph(around.nodes, around.edges, "Dependencies") if len(around.nodes) > 1 else None,
        "nodes": views.node_views(job)[:MAX_NODES_LISTED] if whole == job_id else (),
        "results": None if is_fragment else await _results(context, job, caller),
        "may_force_fail": caller.has(Permission.MAINTENANCE) and job.status in ACTIVE and whole == job_id,
        "order_words": ORDER_WORDS,
        "entry_words": entry_words,
        "container_reason": shown_container_reason,
        "coloured": coloured,
        "empty_sentence": empty_sentence,
        "rounded": rounded,
        "statuses": list(Status),
    }
    return Page(template="job.html", title=job_title(job), values=values)


def stays(history: Sequence[HistoryEntry], now: datetime) -> Mapping[int, str]:
    """How long the job stayed in the status of an entry, by the position of the entry; until `now` in the present one.

    Without the final status, and without entries that are not about a status.
    """
    entered = [(at, it) for at, it in enumerate(history) if it.is_status]
    ends = [it.at for _, it in entered[1:]] + [now]
    return {
        at: duration_words(end - it.at)
        for (at, it), end in zip(entered, ends, strict=False)
        if it.status not in FINISHED
    }


def _axis(history: Sequence[HistoryEntry], now: datetime) -> object:
    """The picture of the time axis; None for a job without a past."""
    entered = [it for it in history if it.is_status][-MAX_SPANS - 1 :]
    ends = [it.at for it in entered[1:]] + [now]
    spans = [
        StatusSpan(status=it.status, seconds=max((end - it.at).total_seconds(), 0.0))
        for it, end in zip(entered, ends, strict=False)
        if it.status not in FINISHED
    ]
    return time_axis(spans, "Time in each status, as in the table below") if spans else None


def _has_log(job: Job) -> bool:
    """Whether the log is that of the job itself. The children of an array and the nodes of a job have their own."""
    return not is_parent(job) and (job.spec.nodes is None or node_of(job.id)[1] is not None)


async def _output(context: ConsoleContext, job: Job, caller: Caller) -> JobOutput | None:
    """None for a job whose parts have logs."""
    if not _has_log(job):
        return None
    log = await context.log_windows.find(job.id, attempt=None, container=None, caller=caller)
    follows = job.status not in FINISHED and log.captured
    if log.tag is None or not log.has_run:
        return JobOutput(log=log, lines=(), next=BEGINNING if follows else None)
    page = await context.log_windows.last(log.tag, limit=LOG_LINES)
    return JobOutput(log=log, lines=page.lines, next=f"{log.tag.attempt}.{page.end}" if follows else None)


async def _results(context: ConsoleContext, job: Job, caller: Caller) -> JobResults:
    """Read with the whole page only: they change while the job runs, without a hint, and cost more to read."""
    if is_parent(job):
        return JobResults(cost=None, metrics={}, checkpoints=())
    cost = None if job.spec.prices is None else await context.costs.of_job(job.id, caller=caller)
    metrics = await context.costs.metrics.current(job, caller=caller) if job.spec.reports_metrics else {}
    has_checkpoints = job.spec.checkpoints is not None
    checkpoints = await context.checkpoints.list(job.id, caller=caller) if has_checkpoints else ()
    return JobResults(cost=cost, metrics=metrics, checkpoints=checkpoints[: -MAX_CHECKPOINTS - 1 : -1])
