"""What `batchq top` requests and shows: views, filters, the refresh interval, and lines of text."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from batchq.cli.http_client import call
from batchq.cli.job_selection import Filters
from batchq.cli.quantities import format_duration, local_time
from batchq.cli.server_requests import (
    ACTIVE,
    WAITING,
    Page,
    Row,
    fetch_explanation,
    fetch_job_detail,
    fetch_jobs,
    fetch_log_lines,
    fetch_overview,
)

FAST, SLOW = 2.0, 10.0  # seconds between two requests: while something changes, and otherwise
CALM_AFTER = 5  # equal responses after which the interval is SLOW
BAR_WIDTH = 10  # characters
MAX_QUEUES = 6  # lines of queues above the table
MAX_FAILURES = 2  # groups of failures in the line
MIB = 1024  # MiB of a GiB
LOG_LINES = 200  # of the end of a log
TIMEOUT = 10.0  # seconds for the end of a log
STOP_PATHS: Mapping[str, str] = {"cancel": "/v1/canceljob", "terminate": "/v1/terminatejob"}


class View(StrEnum):
    """The jobs in the table."""

    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"


STATUSES: Mapping[View, tuple[str, ...]] = {View.RUNNING: ACTIVE, View.WAITING: WAITING, View.FAILED: ("FAILED",)}


class TopSnapshot(Struct, frozen=True, kw_only=True):
    """The responses of one refresh."""

    #: The response of `overview`.
    overview: Page
    #: The rows of `listjobs`.
    rows: tuple[Row, ...]


class TopServer(Struct, frozen=True):
    """A server at a URL. Its methods raise the errors of `http_client.call`."""

    url: str

    def snapshot(self, filters: Mapping[str, object], *, limit: int) -> TopSnapshot:
        """The overview, and the first `limit` rows of the search."""
        return TopSnapshot(
            overview=fetch_overview(self.url), rows=tuple(fetch_jobs(self.url, filters, limit=limit)["jobs"])
        )

    def describe(self, what: str, job_id: str) -> list[str]:
        """Lines of text: `why` is the explanation, `log` the end of the log, `show` the details of the job."""
        if what == "why":
            return [str(fetch_explanation(self.url, job_id).get("sentence", ""))]
        if what == "log":
            lines = fetch_log_lines(self.url, job_id, timeout=TIMEOUT, tail=LOG_LINES)["lines"]
            return [str(line["message"]) for line in lines] or ["The job has written nothing yet."]
        job = fetch_job_detail(self.url, job_id)["job"]
        return [f"{name:<18} {value}" for name, value in job.items() if not isinstance(value, list | dict)]

    def stop(self, operation: str, job_id: str, reason: str) -> None:
        """Cancel or terminate one job."""
        call(self.url, STOP_PATHS[operation], {"jobId": job_id, "reason": reason})


class TopState:
    """The view, the filter, and the pace of the refreshes."""

    def __init__(self, selection: Filters | None = None) -> None:
        """`selection`: the members of `listjobs` that select the jobs of all views; None: all jobs."""
        self.selection = selection or {}
        self.view = View.RUNNING
        #: A part of the names of the jobs; empty: every name.
        self.name = ""
        self.paused = False
        self._last: object = None
        self._equal = 0

    def filters(self) -> dict[str, object]:
        """The filters of `listjobs`."""
        content: dict[str, object] = {
            **self.selection,
            "jobStatuses": list(STATUSES[self.view]),
            "explain": self.view is not View.RUNNING,
        }
        if self.view is View.RUNNING:  # AWS: an array is PENDING while its children run
            content["children"] = True
        if self.view is View.FAILED:
            content["orderBy"] = "ENDED"
        if self.name:
            content["jobNames"] = [f"*{self.name}*"]
        return content

    def switch(self) -> None:
        """Show the next view."""
        views = list(View)
        self.view = views[(views.index(self.view) + 1) % len(views)]
        self._equal = 0

    def received(self, snapshot: TopSnapshot) -> None:
        """Record a response: without a change the requests become rarer."""
        seen = ({name: value for name, value in snapshot.overview.items() if name != "at"}, snapshot.rows)
        self._equal = self._equal + 1 if seen == self._last else 0
        self._last = seen

    @property
    def interval(self) -> float:
        """The seconds until the next request."""
        return SLOW if self._equal >= CALM_AFTER else FAST


def summary_lines(overview: Page, present: datetime) -> list[str]:
    """The lines above the table: the engine, the queues, the capacity and the failures. Not yet escaped."""
    engine = overview.get("engine", {})
    head = f"{engine.get('sentence', '')}  {overview.get('user', '')} ({str(overview.get('role', '')).lower()})"
    return [
        head.strip(),
        *queue_lines(overview.get("queues", []), present),
        *capacity_lines(overview.get("capacity", [])),
        *failure_lines(overview.get("failed", {})),
    ]


def queue_lines(queues: Sequence[Row], present: datetime) -> list[str]:
    """A line for each queue, the busiest first: running and waiting jobs, the oldest, and why its first job waits."""
    busiest = sorted(
        queues, key=lambda queue: (-_sum(queue, View.RUNNING) - _sum(queue, View.WAITING), str(queue["jobQueue"]))
    )
    lines = [_queue_line(row, present) for row in busiest[:MAX_QUEUES]]
    if len(busiest) > MAX_QUEUES:
        lines.append(f"and {len(busiest) - MAX_QUEUES} more queues: batchq queue list")
    return lines


def _queue_line(queue: Row, present: datetime) -> str:
    oldest = local_time(queue.get("oldestRunnableAt"))
    waited = f" ({format_duration(present - oldest)})" if oldest else ""
    why = str(queue.get("why", {}).get("sentence", ""))
    state = "" if queue.get("state") == "ENABLED" else " DISABLED"
    state += " DRAINED" if queue.get("drained") else ""
    counts = f"{_sum(queue, View.RUNNING):>6} running {_sum(queue, View.WAITING):>8} waiting{waited}"
    return f"{queue['jobQueue']!s:<16}{state}{counts}  {why}".rstrip()


def _sum(queue: Row, view: View) -> int:
    counts = queue.get("counts", {})
    return sum(int(counts.get(status, 0)) for status in STATUSES[view])


def capacity_lines(environments: Sequence[Row]) -> list[str]:
    """A line for each compute environment: vCPUs; and one for the machine: memory and GPUs, which all of them share."""
    lines = [
        f"{environment['computeEnvironment']!s:<16} vCPUs {_usage(environment['vcpus'])}"
        for environment in environments
        if environment.get("vcpus")
    ]
    if environments:
        memory, gpus = environments[0].get("memoryMiB", {}), environments[0].get("gpus", {})
        parts = [f"memory {_usage({name: value / MIB for name, value in memory.items()})} GiB"]
        parts += [f"GPUs {_usage(gpus)}"] if gpus.get("limit") else []
        lines.append(f"{'machine':<16} {'   '.join(parts)}")
    return lines


def _usage(amounts: Mapping[str, Any]) -> str:
    """`6.5 of 8 [########..]`; without a known limit, only what is requested."""
    requested, limit = float(amounts.get("requested", 0)), amounts.get("limit")
    if not limit:
        return f"{requested:.3g}"
    filled = min(BAR_WIDTH, round(BAR_WIDTH * requested / float(limit)))
    return f"{requested:.3g} of {float(limit):.3g} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"


def failure_lines(failed: Row) -> list[str]:
    """One line about the failures of the last 24 hours; none without a failure."""
    if not failed.get("count"):
        return []
    groups = [
        f"{group['count']} {group['jobDefinition']} {group['reason']}"
        for group in failed.get("groups", [])[:MAX_FAILURES]
    ]
    at_least = "more than " if failed.get("more") else ""
    return [f"{'failed, 24 h':<16} {at_least}{failed['count']}: {'; '.join(groups)}"]
