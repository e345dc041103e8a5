"""The overview of a server, drained queues, and logins to the web console."""

from msgspec import Struct, field

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
