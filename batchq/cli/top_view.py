"""What `batchq top` requests and shows: views, filters, the refresh interval, and lines of text."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from batchq.cli.activity import ActivityReader, load_lines
from batchq.cli.http_client import Document, call
from batchq.cli.job_detail import detail_lines
from batchq.cli.job_selection import Filters
from batchq.cli.machines import MIB, fetch_first_machines, machine_lines, usage_bar
from batchq.cli.progress import array_progress, group_progress, has_begun, summary_line
from batchq.cli.quantities import format_duration, local_time, now
from batchq.cli.server_requests import (
    fetch_explanation,
    fetch_groups,
    fetch_jobs,
    fetch_log_lines,
    fetch_overview,
)
from batchq.domain.enums import ACTIVE, QUEUED, State, Status, in_order
from batchq.ports.responses import server
from batchq.ports.responses.groups import GroupRow
from batchq.ports.responses.jobs import JobRow
from batchq.ports.responses.machines import MachinesResponse

FAST, SLOW = 2.0, 10.0  # seconds between two requests: while something changes, and otherwise
CALM_AFTER = 5  # equal responses after which the interval is SLOW
MAX_QUEUES = 6  # lines of queues above the table
FUTURE = 86_400_000  # milliseconds from now: the filter `endedAfter` then selects unfinished groups only
MAX_ARRAYS = 100  # the newest PENDING jobs among which arrays that run are searched
MAX_FAILURES = 2  # groups of failures in the line
LOG_LINES = 200  # of the end of a log
TIMEOUT = 10.0  # seconds for the end of a log
STOP_PATHS: Mapping[str, str] = {"cancel": "/v1/canceljob", "terminate": "/v1/terminatejob"}


class View(StrEnum):
    """The jobs in the table."""

    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"


STATUSES: Mapping[View, tuple[Status, ...]] = {
    View.RUNNING: in_order(ACTIVE),
    View.WAITING: in_order(QUEUED),
    View.FAILED: (Status.FAILED,),
}


class TopSnapshot(Struct, frozen=True, kw_only=True):
    """The responses of one refresh."""

    overview: server.OverviewResponse
    #: The rows of `listjobs`.
    rows: tuple[JobRow, ...]
    #: The unfinished groups.
    groups: tuple[GroupRow, ...] = ()
    #: The arrays of which a child runs or has ended.
    arrays: tuple[JobRow, ...] = ()
    #: The first machines.
    machines: MachinesResponse
    #: Lines about the activity of the last day.
    activity: tuple[str, ...] = ()


class TopServer:
    """A server at a URL. Its methods raise the errors of `http_client.call`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._activity = ActivityReader(url)

    def snapshot(self, filters: Mapping[str, object], *, limit: int) -> TopSnapshot:
        """The overview, and the first `limit` rows of the search."""
        overview = fetch_overview(self.url)
        shared = {member: filters[member] for member in ("mine", "jobQueues") if member in filters}
        groups = fetch_groups(self.url, endedAfter=overview.at + FUTURE, maxResults=MAX_QUEUES, **shared)
        arrays = {**shared, "jobStatuses": ["PENDING"]}
        return TopSnapshot(
            overview=overview,
            rows=fetch_jobs(self.url, filters, limit=limit).jobs,
            groups=tuple(groups),
            arrays=tuple(filter(has_begun, fetch_jobs(self.url, arrays, limit=MAX_ARRAYS).jobs))[:MAX_QUEUES],
            activity=tuple(load_lines(self._activity.read())),
            machines=fetch_first_machines(self.url),
        )

    def describe(self, what: str, job_id: str) -> list[str]:
        """Lines of text: `why` is the explanation, `log` the end of the log, `show` the details of the job."""
        if what == "why":
            return [fetch_explanation(self.url, job_id).sentence]
        if what == "log":
            lines = fetch_log_lines(self.url, job_id, timeout=TIMEOUT, tail=LOG_LINES).lines
            return [line.message for line in lines] or ["The job has written nothing yet."]
        return detail_lines(self.url, job_id, now())

    def stop(self, operation: str, job_id: str, reason: str) -> None:
        """Cancel or terminate one job."""
        call(self.url, STOP_PATHS[operation], {"jobId": job_id, "reason": reason}, answer=Document)


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
        if self.view is View.FAILED:
            content["orderBy"] = "ENDED"
        if self.name:
            # AWS: an array is PENDING while its children run. Its line stands for them, unless a name selects them.
            content |= {"children": True} if self.view is View.RUNNING else {}
            content["jobNames"] = [f"*{self.name}*"]
        return content

    def switch(self) -> None:
        """Show the next view."""
        views = list(View)
        self.view = views[(views.index(self.view) + 1) % len(views)]
        self._equal = 0

    def received(self, snapshot: TopSnapshot) -> None:
        """Record a response: without a change the requests become rarer."""
        seen = replace(snapshot.overview, at=0), snapshot.rows, snapshot.machines
        self._equal = self._equal + 1 if seen == self._last else 0
        self._last = seen

    @property
    def interval(self) -> float:
        """The seconds until the next request."""
        return SLOW if self._equal >= CALM_AFTER else FAST


def summary_lines(snapshot: TopSnapshot, present: datetime) -> list[str]:
    """The lines above the table: container engine, queues, capacity, machines, failures, activity and groups."""
    overview = snapshot.overview
    return [
        f"{overview.engine.sentence}  {overview.user} ({overview.role.lower()})",
        *queue_lines(overview.queues, present),
        *capacity_lines(overview.capacity),
        *machine_lines(snapshot.machines, present),
        *failure_lines(overview.failed),
        *snapshot.activity,
        *group_lines(snapshot.groups, snapshot.arrays),
    ]


def group_lines(groups: Sequence[GroupRow], arrays: Sequence[JobRow] = ()) -> list[str]:
    """A line for each unfinished group, and for each array of which a child runs or has ended."""
    return [
        *(summary_line(group_progress(group)) for group in groups),
        *(summary_line(array_progress(array)) for array in arrays),
    ]


def queue_lines(queues: Sequence[server.QueueResponse], present: datetime) -> list[str]:
    """A line for each queue, the busiest first: running and waiting jobs, the oldest, and why its first job waits."""
    busiest = sorted(
        queues, key=lambda queue: (-_sum(queue, View.RUNNING) - _sum(queue, View.WAITING), queue.job_queue)
    )
    lines = [_queue_line(row, present) for row in busiest[:MAX_QUEUES]]
    if len(busiest) > MAX_QUEUES:
        lines.append(f"and {len(busiest) - MAX_QUEUES} more queues: batchq queue list")
    return lines


def _queue_line(queue: server.QueueResponse, present: datetime) -> str:
    oldest = local_time(queue.oldest_runnable_at)
    waited = f" ({format_duration(present - oldest)})" if oldest else ""
    why = "" if queue.why is None else queue.why.sentence
    state = "" if queue.state is State.ENABLED else " DISABLED"
    state += " DRAINED" if queue.drained else ""
    counts = f"{_sum(queue, View.RUNNING):>6} running {_sum(queue, View.WAITING):>8} waiting{waited}"
    return f"{queue.job_queue:<16}{state}{counts}  {why}".rstrip()


def _sum(queue: server.QueueResponse, view: View) -> int:
    return sum(queue.counts.get(status, 0) for status in STATUSES[view])


def capacity_lines(environments: Sequence[server.EnvironmentResponse]) -> list[str]:
    """A line for each compute environment: vCPUs; and one for memory and GPUs, which all of them share."""
    lines = [
        f"{environment.compute_environment:<16} vCPUs {usage_bar(environment.vcpus)}" for environment in environments
    ]
    if environments:
        memory, gpus = environments[0].memory_mib, environments[0].gpus
        parts = [f"{usage_bar(memory, unit=MIB)} GiB", *([f"GPUs {usage_bar(gpus)}"] if gpus.limit else [])]
        lines.append(f"{'memory':<16} {'   '.join(parts)}")
    return lines


def failure_lines(failed: server.FailuresResponse) -> list[str]:
    """One line about the failures of the last 24 hours; none without a failure."""
    if not failed.count:
        return []
    groups = [f"{group.count} {group.job_definition} {group.reason}" for group in failed.groups[:MAX_FAILURES]]
    at_least = "more than " if failed.more else ""
    return [f"{'failed, 24 h':<16} {at_least}{failed.count}: {'; '.join(groups)}"]
