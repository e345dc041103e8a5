"""The overview and the health of a server, drained queues, and logins to the web console."""

from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain.enums import Role, ServerState, State, Status
from batchq.ports.responses.jobs import ExplanationResponse, JobRow


class EmptyResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer without members."""


class EngineResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the container engine and of the server."""

    state: ServerState
    #: What is wrong, or that jobs start.
    sentence: str
    #: Since when something is wrong, in milliseconds since 1970; absent if nothing is wrong, or the time is not known.
    since: int | None = None


class QueueResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One queue, with the jobs that the caller sees."""

    job_queue: str
    state: State
    #: Whether it accepts jobs and starts none.
    drained: bool = False
    #: Queues with a higher priority are placed first.
    priority: int
    #: Unfinished jobs by status. Children of arrays count as single jobs, and arrays do not count.
    counts: dict[Status, int]
    #: The number of unfinished arrays.
    arrays: int
    #: When the first RUNNABLE job became RUNNABLE, in milliseconds since 1970; absent without one.
    oldest_runnable_at: int | None = None
    #: Why the first job of the queue waits; absent if no job waits, or the job is not visible to the caller.
    why: ExplanationResponse | None = None


class VcpusResponse(Struct, frozen=True, kw_only=True):
    """The vCPUs of one compute environment."""

    limit: float
    #: By active jobs, of all users.
    requested: float


class CapacityResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Memory, GPUs or nodes: of one machine, or of those that a compute environment selects. Environments may share."""

    #: Absent while the container engine does not answer.
    limit: int | None = None
    #: By active jobs, of all users.
    requested: int


class EnvironmentResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The capacity of one compute environment."""

    compute_environment: str
    state: State
    vcpus: VcpusResponse
    memory_mib: CapacityResponse = field(name="memoryMiB")
    gpus: CapacityResponse


class FailureGroupResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """Failed jobs of one job definition with the same reason."""

    #: `NAME:REVISION`.
    job_definition: str
    reason: str
    count: int


class FailuresResponse(Struct, frozen=True, kw_only=True):
    """The failed jobs of the last 24 hours. An array counts once."""

    count: int
    #: Whether there are more failures than were counted.
    more: bool
    #: The ten largest groups, the largest first.
    groups: tuple[FailureGroupResponse, ...]


class OverviewResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The overview. Jobs that the caller may not see are neither counted nor listed."""

    #: Milliseconds since 1970.
    at: int
    #: The caller.
    user: str
    account: str
    role: Role
    engine: EngineResponse
    #: By descending priority, then by name.
    queues: tuple[QueueResponse, ...]
    capacity: tuple[EnvironmentResponse, ...]
    #: The running jobs that started first, at most five.
    longest_running: tuple[JobRow, ...]
    failed: FailuresResponse


class DrainQueueResponse(Struct, frozen=True, kw_only=True):
    """The queue after the request."""

    queue: str
    #: Whether it accepts jobs and starts none.
    drained: bool


class CreateConsoleLoginResponse(Struct, frozen=True, kw_only=True):
    """Where a browser opens the page."""

    #: The whole URL. Behind a proxy its scheme may be another one.
    url: str
    #: The path and the query of `url`.
    path: str


#: The parts of a report that are described by a text.
_DESCRIBED = ("store", "engine", "data", "disk", "reserve", "logs", "event_loop")


def _state(text: str) -> str:
    return text if text == "ok" else "failing"


class HealthReport(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The health of the server. Each part is `ok` or a description of the failure.

    Without a signature a server with keys sends `status` only. Callers who do not see all jobs get `failing` instead of
    a description.
    """

    #: `ok`, `degraded` (requests are answered, and work that fails at present is retried) or `failing` (a background
    #: loop fails however often it is restarted, so an operator must act).
    status: str
    #: The database.
    store: str | None = None
    #: The container engine.
    engine: str | None = None
    #: Why safe mode starts no job, if the data was restored.
    data: str | None = None
    disk: str | None = None
    #: The reserve that lets ends of jobs be saved on a full disk.
    reserve: str | None = None
    #: The capture of logs.
    logs: str | None = None
    #: The background loops, by name: `ok`, or how often each was restarted.
    loops: dict[str, str] | None = None
    #: The names of the loops that fail each time they are restarted.
    failing_loops: tuple[str, ...] | None = None
    #: Whether the event loop was blocked.
    event_loop: str | None = None
    #: Rows, or parts of rows, in quarantine.
    put_aside: int | None = None
    #: The id of the database.
    instance: str | None = None
    #: `docker`, `kubernetes` or `simulated`.
    runtime: str | None = None
    version: str | None = None
    #: The time of the server, ISO 8601.
    now: str | None = None

    def without_errors(self) -> Self:
        """The report without descriptions of failures, which may name what other users run, or files of the machine."""
        parts = {name: getattr(self, name) for name in _DESCRIBED}
        hidden = {name: _state(text) for name, text in parts.items() if text is not None}
        loops = None if self.loops is None else {loop: _state(text) for loop, text in self.loops.items()}
        return replace(self, loops=loops, **hidden)
