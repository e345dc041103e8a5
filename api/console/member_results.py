"""Results of many jobs, as the page of a group and that of an array show them: rows, failures by reason, CSV."""

import asyncio
import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from aiohttp import web
from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.pages import HEADERS
from batchq.api.console.svg import histogram
from batchq.api.operations.job_pages import in_slices, job_pages
from batchq.api.operations.operations import CallLimit
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Status
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.domain.use import NOT_MEASURED, Use
from batchq.ports.job_search import PageQuery
from batchq.system.escapes import csv_cell

MAX_REASONS = 20
#: The order of lists: what needs attention first.
LIST_ORDER = (
    Status.FAILED,
    Status.RUNNING,
    Status.STARTING,
    Status.RUNNABLE,
    Status.PENDING,
    Status.SUBMITTED,
    Status.SUCCEEDED,
)
CSV_PAGE = 1000  # jobs that are read at once for the CSV
CSV_LIMIT = CallLimit(at_once=1, waiting=7)
MAX_CSV_NAMES = 200  # columns of values, and of metrics; jobs with names of their own would make a square of cells
USED = ("cpu seconds", "peak memory bytes", "working set bytes")  # columns of the CSV
RESULTS = ("state", "exit code", "reason", "run seconds", "attempts", *USED)


class MemberRow(Struct, frozen=True, kw_only=True):
    """A job with its values and results."""

    job: Job
    exit_code: int | None
    #: The run time of its latest attempt in seconds; None: it has not started, or not ended.
    ran: float | None
    attempts: int
    #: What its latest attempt used; None: it was not measured.
    use: Use | None
    values: Mapping[str, str]
    metrics: Mapping[str, float]

    @property
    def unmeasured(self) -> str:
        """The text for a figure that is not known; empty for a job that has not run."""
        return "" if self.job.started_at is None else NOT_MEASURED


class CsvRow(Struct, frozen=True, kw_only=True):
    """What the CSV has of a job. It is small, because all jobs of a table are in memory at the same time."""

    job_id: str
    name: str
    values: Mapping[str, str]
    #: State, exit code, reason, run time in seconds, attempts, CPU time in seconds, bytes of memory.
    results: tuple[object, ...]
    metrics: Mapping[str, float]


def member_row(job: Job) -> MemberRow:
    run = job.latest_attempt
    ran = None if job.started_at is None or job.stopped_at is None else job.stopped_at - job.started_at
    metrics = {} if run is None else {name: value.value for name, value in run.metrics}
    return MemberRow(
        job=job,
        exit_code=None if run is None else run.exit_code,
        ran=None if ran is None else ran.total_seconds(),
        attempts=len(job.all_attempts),
        use=None if run is None else run.use,
        values=dict(job.spec.parameters),
        metrics=metrics,
    )


def failure_reasons(rows: Iterable[MemberRow]) -> list[tuple[str, int]]:
    """Why jobs failed, the most frequent reason first."""
    failed = Counter(_reason(row) for row in rows if row.job.status is Status.FAILED)
    return failed.most_common(MAX_REASONS)


def _reason(row: MemberRow) -> str:
    reason = shown_status_reason(row.job) or ""
    return f"exit code {row.exit_code}: {reason}".removesuffix(": ") if row.exit_code else reason


def run_times(rows: Iterable[MemberRow]) -> list[float]:
    """The run times of the jobs that SUCCEEDED, in seconds."""
    return [row.ran for row in rows if row.ran is not None and row.job.status is Status.SUCCEEDED]


def run_time_picture(runs: Sequence[float]) -> Markup | None:
    """A histogram; None for fewer than two run times."""
    return histogram(runs, "Run times of the jobs that succeeded") if len(runs) > 1 else None


async def csv_answer(parts: Parts, selection: JobSelection, *, name: str, caller: Caller) -> web.Response:
    """All selected jobs, the newest first, with their values and results, as the file `name`.csv."""
    pages = job_pages(parts, PageQuery(selection=selection, limit=CSV_PAGE), caller=caller)
    rows = [_csv_row(member_row(job)) async for page in pages async for job in in_slices(page.jobs)]
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}.csv"'}
    text = await asyncio.to_thread(_csv_text, rows)
    return web.Response(text=text, content_type="text/csv", headers=headers)


def _csv_row(row: MemberRow) -> CsvRow:
    used = (None, None, None) if row.use is None else (row.use.cpu_seconds, row.use.peak_memory, row.use.working_set)
    results = (row.job.status.value, row.exit_code, shown_status_reason(row.job), row.ran, row.attempts, *used)
    return CsvRow(job_id=row.job.id, name=row.job.spec.name, values=row.values, results=results, metrics=row.metrics)


def _csv_text(rows: Sequence[CsvRow]) -> str:
    values, metrics = _columns(row.values for row in rows), _columns(row.metrics for row in rows)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(map(_cell, ["job", "name", *values.titles("values"), *RESULTS, *metrics.titles("metrics")]))
    for row in rows:
        given, measured = values.cells(row.values), metrics.cells(row.metrics)
        table.writerow([_cell(cell) for cell in (row.job_id, row.name, *given, *row.results, *measured)])
    return text.getvalue()


class CsvColumns(Struct, frozen=True, kw_only=True):
    """The columns of the values, or metrics, of jobs: one for each name, and one for all that have no column."""

    names: Sequence[str]
    has_others: bool

    def titles(self, kind: str) -> Sequence[str]:
        return (*self.names, f"other {kind}") if self.has_others else self.names

    def cells(self, members: Mapping[str, object]) -> Sequence[object]:
        """The cells of a job. The last one has the others as JSON; empty: the job has none."""
        cells = [members.get(name, "") for name in self.names]
        if not self.has_others:
            return cells
        others = {name: members[name] for name in members.keys() - frozenset(self.names)}
        return (*cells, json.dumps(others, sort_keys=True) if others else "")


def _columns(members: Iterable[Mapping[str, object]]) -> CsvColumns:
    names = member_names(members, most=MAX_CSV_NAMES + 1)
    return CsvColumns(names=names[:MAX_CSV_NAMES], has_others=len(names) > MAX_CSV_NAMES)


def _cell(value: object) -> object:
    return csv_cell(value) if isinstance(value, str) else value


def member_names(members: Iterable[Mapping[str, object]], *, most: int) -> list[str]:
    """The names of all, in the order of their first occurrence, up to `most` names."""
    names: dict[str, None] = {}
    for each in members:
        for name in each:
            names[name] = None
            if len(names) == most:
                return list(names)
    return list(names)


def as_number(value: str | float | None) -> float | None:
    """The number that a value is or names; None without one."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return None
