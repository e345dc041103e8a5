"""One job with what it runs, its relations and its attempts."""

from msgspec import Struct, field

from batchq.domain.enums import Action, AttemptContainerState, DependencyType, Status
from batchq.ports.responses.costs import CostResponse
from batchq.ports.responses.jobs import JobRow, UseResponse
from batchq.ports.responses.stops import StopOrderResponse


class EnvironmentVariable(Struct, frozen=True, kw_only=True):
    """An environment variable of a container."""

    name: str
    value: str


class ContainerResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """One of several containers of a job."""

    name: str
    #: Whether the job ends with it.
    essential: bool
    image: str
    command: tuple[str, ...]
    environment: tuple[EnvironmentVariable, ...]


class DependencyResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job that must succeed first."""

    #: Absent: each child of the array waits for the one before it.
    job_id: str | None = None
    type: DependencyType | None = None


class DependentResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job that waits for this one."""

    job_id: str
    job_name: str
    status: Status


class ExitRuleResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An entry of AWS's evaluateOnExit."""

    action: Action
    on_status_reason: str | None = None
    on_reason: str | None = None
    on_exit_code: str | None = None


class RetryResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """AWS's retryStrategy."""

    attempts: int
    evaluate_on_exit: tuple[ExitRuleResponse, ...]


class AttemptContainerResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One of several containers of an attempt."""

    name: str
    #: The index of its node.
    node: int
    #: The machine of its node; absent if the container engine has only one.
    machine: str | None = None
    state: AttemptContainerState
    #: Milliseconds since 1970, as are all times.
    started_at: int | None = None
    stopped_at: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    #: Absent if it was not measured.
    use: UseResponse | None = None
    #: The order that stopped its node or, of a task, this container alone.
    stop_order: StopOrderResponse | None = None
    log_stream_name: str | None = None


class AttemptResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One attempt. The container of an attempt with several is the one that decided it, or represents it."""

    #: From 1.
    number: int
    compute_environment: str
    #: The machine of the container; absent if the container engine has only one.
    machine: str | None = None
    #: When its first container began to run.
    started_at: int | None = None
    stopped_at: int | None = None
    exit_code: int | None = None
    #: The reason of the container.
    reason: str | None = None
    #: Why the attempt ended.
    status_reason: str | None = None
    #: Whether a pause ended it: it does not count against the attempts of the retry strategy.
    paused: bool = False
    #: Of all its containers; absent if one of them was not measured.
    use: UseResponse | None = None
    log_stream_name: str | None = None
    #: Of an attempt with several containers.
    containers: tuple[AttemptContainerResponse, ...] = ()


class JobDetails(JobRow, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One job with what it runs, its neighbours and its attempts."""

    #: Of the container; of a job with several the one that represents it.
    image: str
    command: tuple[str, ...]
    environment: tuple[EnvironmentVariable, ...]
    #: What the whole job reserves.
    gpus: int
    #: Of a job with several containers on one node, and of a node.
    containers: tuple[ContainerResponse, ...] = ()
    depends_on: tuple[DependencyResponse, ...] = ()
    #: Jobs that wait for this one, as far as the caller sees them; at most 50.
    dependents: tuple[DependentResponse, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    #: The longest that one attempt may run; absent: without limit.
    timeout_seconds: int | None = None
    #: The time between the stop signal and the kill.
    stop_grace_seconds: float
    retry_strategy: RetryResponse
    #: Oldest first, with the one under way.
    attempts: tuple[AttemptResponse, ...]
    #: What the job has cost so far; absent without prices, and of an array, whose cost GetJobCost adds up.
    cost: CostResponse | None = None
    #: All orders to cancel or stop the job, oldest first.
    stop_orders: tuple[StopOrderResponse, ...] = ()


class JobResponse(Struct, frozen=True, kw_only=True):
    """The job."""

    job: JobDetails
