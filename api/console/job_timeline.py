"""Timelines of jobs: the attempts of one job, the critical path of its dependencies, and the jobs that run now."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.gantt import Gantt, GanttRow, SpanKind, TimeSpan, gantt
from batchq.api.console.job_words import job_title
from batchq.api.console.runs_of_rows import ActiveRow
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import job_path, node_of
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.stopping import is_stopped_by_user
from batchq.domain.scheduling.dependencies import standing
from batchq.domain.wording import counted, duration_words, memory_words, seconds_words, vcpus_words
from batchq.ports.history import HistoryEntry

MAX_ATTEMPTS = 20  # rows, the last ones
MAX_PATH = 10  # jobs of a critical path
MAX_READ = 100  # dependencies of one job that are compared
LONGEST_AXIS = timedelta(hours=24)  # of running jobs
#: A shorter wait before RUNNABLE is that of the server, not of a dependency.
NOTICEABLE = timedelta(seconds=1)


class CriticalPath(Struct, frozen=True, kw_only=True):
    """The chain of jobs that decided when a job could start."""

    picture: Markup
    #: A sentence about the longest part.
    sentence: str


def attempts_picture(job: Job, history: Iterable[HistoryEntry], now: datetime) -> Markup | None:
    """A row for each attempt, with the wait before it. None for an array, whose children have the attempts."""
    rows = [] if is_parent(job) else list(_attempt_rows(job, _ready_at(job, history, now), now))[-MAX_ATTEMPTS:]
    if not rows:
        return None
    start, end = rows[0].spans[0].start, rows[-1].spans[-1].end
    return gantt(Gantt(label="Waits and attempts", rows=rows, start=start, end=end))


async def critical_path(parts: Parts, job: Job, *, caller: Caller) -> CriticalPath | None:
    """The path of a job, as far as the caller may see it; None for a job without dependencies. Raises StoreFailed."""
    now, path = parts.clock.now(), [job]
    while node_of(job.id)[1] is None and len(path) < MAX_PATH:
        ids = [job_id for job_id, _ in standing(path[0], {})][:MAX_READ]
        before = last_dependency(path[0], await parts.jobs.describe(ids, caller=caller) if ids else (), now)
        if before is None or before.id in {each.id for each in path}:
            break
        path.insert(0, before)
    return path_picture(path, now) if len(path) > 1 else None


def last_dependency(job: Job, before: Iterable[Job], now: datetime) -> Job | None:
    """The job for which this one waited, or waits, the longest."""
    runs = job.all_attempts
    if not runs and job.status not in FINISHED:
        unfinished = [each for each in before if each.status not in FINISHED]
        if unfinished:
            return max(unfinished, key=lambda each: each.sequence)
    until = (runs[0].placed_at if runs else None) or job.stopped_at or now
    ended = [each for each in before if each.stopped_at is not None and each.stopped_at <= until]
    return max(ended, key=lambda each: (each.stopped_at, each.sequence), default=None)


def path_picture(path: Sequence[Job], now: datetime) -> CriticalPath:
    """A row for each job, from the end of the one before it. `path`: the first job first, at least one."""
    rows, after = list[GanttRow](), path[0].created_at
    for job in path:
        spans = list(_job_spans(job, max(after, job.created_at), now))
        rows.append(_row(job, spans, f"{job.status}{_length(spans)}"))
        after = now if job.stopped_at is None else max(after, job.stopped_at)
    start, end = path[0].created_at, max(after, path[-1].stopped_at or now)
    longest, name = max((span.length, name) for row in rows for span in row.spans for name in [row.name])
    share = f"{seconds_words(longest.total_seconds())} of {seconds_words((end - start).total_seconds())}"
    picture = gantt(Gantt(label="Critical path", rows=rows, start=start, end=end))
    return CriticalPath(picture=picture, sentence=f"The longest part is that of {name}: {share}.")


def running_picture(active: Sequence[ActiveRow], now: datetime) -> Markup | None:
    """A line for each row with its attempt under way; of several jobs that of the first.

    An attempt that began earlier than a day ago is cut.
    """
    rows = [_running_row(row, now) for row in active]
    if not rows:
        return None
    first = min((row.spans[0].start for row in rows if row.spans), default=now)
    start = max(first, now - LONGEST_AXIS)
    return gantt(Gantt(label="Jobs that run now", rows=rows, start=start, end=now, is_ago=True))


def _running_row(row: ActiveRow, now: datetime) -> GanttRow:
    job, sweep = row.job, row.sweep
    run, spec = job.attempt, job.spec
    assert run is not None, f"{job.id} is not active"
    begun = run.placed_at or run.started_at or now
    spans = list(_attempt_spans(job, run, after=begun, ready_at=begun, now=now))
    requested = f"{vcpus_words(spec.resources.millicpus)}, {memory_words(spec.resources.memory_mib)}"
    detail = f"{spec.owner.user}, {spec.queue}" if spec.owner.user else spec.queue
    result, line = f"{duration_words(now - begun)}; {requested}", f"job-{job.id}"
    if sweep is None:
        return _row(job, spans, result, detail=detail, line=line)
    name = f"{sweep.name}: {counted(row.count, *sweep.words)}"
    return GanttRow(name=name, path=sweep.path, spans=spans, result=f"{result} each", detail=detail, line=line)


def _row(job: Job, spans: Sequence[TimeSpan], result: str, **more: str) -> GanttRow:
    return GanttRow(name=job_title(job), path=job_path(job.id), spans=spans, result=result, **more)


def _attempt_rows(job: Job, ready_at: datetime, now: datetime) -> Iterator[GanttRow]:
    at, runs = job.created_at, job.all_attempts
    for run in runs:
        spans = list(_attempt_spans(job, run, after=at, ready_at=ready_at, now=now))
        if spans:
            name, at = f"Attempt {run.number}", spans[-1].end
            yield GanttRow(name=name, path=f"#attempt-{run.number}", spans=spans, result=_result(run, spans))
    spans = list(_last_wait(job, at, ready_at, now))
    if spans:
        result = "not started" if job.status in FINISHED else "waits"
        yield GanttRow(name=f"Attempt {len(runs) + 1}", path="", spans=spans, result=result)


def _job_spans(job: Job, after: datetime, now: datetime) -> Iterator[TimeSpan]:
    """All that a job did after a time. The times of an array are those of its children together."""
    if is_parent(job):
        end = job.stopped_at or now
        kind = _END_KINDS.get(job.status, SpanKind.RUNNING if job.array_state is not None else SpanKind.WAITING)
        if end > after:
            yield TimeSpan(kind=kind, start=after, end=end)
        return
    for run in job.all_attempts:
        if run.stopped_at is None or run.stopped_at > after:
            spans = list(_attempt_spans(job, run, after=after, ready_at=after, now=now))
            yield from spans
            after = spans[-1].end if spans else after
    yield from _last_wait(job, after, after, now)


def _attempt_spans(job: Job, run: Attempt, *, after: datetime, ready_at: datetime, now: datetime) -> Iterator[TimeSpan]:
    """The wait from `after` until the attempt, its start and its run. Spans never overlap, whatever the clocks were."""
    end = max(after, run.stopped_at or now)
    placed = min(max(after, run.placed_at or run.started_at or end), end)
    started = min(max(placed, run.started_at or end), end)
    yield from _wait(after, placed, ready_at)
    if started > placed:
        yield TimeSpan(kind=SpanKind.STARTING, start=placed, end=started)
    if run.started_at is not None:
        yield TimeSpan(kind=_outcome(job, run), start=started, end=end)


def _last_wait(job: Job, after: datetime, ready_at: datetime, now: datetime) -> Iterator[TimeSpan]:
    """The wait after the last attempt: of a queued job until now, of a job that ended while it waited until its end."""
    if job.attempt is None and (job.stopped_at is None or not job.attempts):
        yield from _wait(after, job.stopped_at or now, ready_at)


def _wait(start: datetime, end: datetime, ready_at: datetime) -> Iterator[TimeSpan]:
    """The wait for other jobs, which ended at `ready_at`, then that for capacity."""
    split = min(max(start, ready_at), end)
    if split - start > NOTICEABLE:
        yield TimeSpan(kind=SpanKind.DEPENDENCIES, start=start, end=split)
        start = split
    if end > start:
        yield TimeSpan(kind=SpanKind.WAITING, start=start, end=end)


def _ready_at(job: Job, history: Iterable[HistoryEntry], now: datetime) -> datetime:
    """When the job had no other jobs to wait for; the present, or its end, while it has."""
    entered = (entry.at for entry in history if entry.is_status and entry.status is Status.RUNNABLE)
    found = next(entered, None)
    if found is not None:
        return found
    return (job.stopped_at or now) if standing(job, {}) and not job.all_attempts else job.created_at


_END_KINDS: Mapping[Status, SpanKind] = {Status.SUCCEEDED: SpanKind.SUCCEEDED, Status.FAILED: SpanKind.FAILED}


def _outcome(job: Job, run: Attempt) -> SpanKind:
    """The colour of a run: of the last one that of the job."""
    if run.stopped_at is None:
        return SpanKind.RUNNING
    is_last = run is job.latest_attempt
    if run.paused or (is_last and job.status is Status.FAILED and is_stopped_by_user(job)):
        return SpanKind.STOPPED
    return _END_KINDS[job.status] if is_last and job.status in _END_KINDS else SpanKind.FAILED


def _result(run: Attempt, spans: Sequence[TimeSpan]) -> str:
    if run.stopped_at is None:
        return "starting" if run.started_at is None else f"running{_length(spans)}"
    if run.started_at is None:
        return "did not start"
    how = "paused" if run.paused else "no exit code" if run.exit_code is None else f"exit code {run.exit_code}"
    return how + _length(spans)


def _length(spans: Sequence[TimeSpan]) -> str:
    """How long the runs were; empty without one."""
    runs = [span.length for span in spans if span.kind in _RUNS]
    return f", {seconds_words(sum(runs, timedelta()).total_seconds())}" if runs else ""


_RUNS = {SpanKind.RUNNING, SpanKind.SUCCEEDED, SpanKind.FAILED, SpanKind.STOPPED}
