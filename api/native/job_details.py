"""GetJob and ExplainJob: one job, a child `ID:3` of an array, or a node `ID#1` (`ID%231` in a URL). See docs/why.md."""

from msgspec import Struct, convert, field
from msgspec.structs import asdict

from batchq.api.native.job_search import (
    ExplanationResponse,
    JobArns,
    JobRow,
    arns_of,
    explanation_answer,
    row_members,
)
from batchq.api.operations.operation_table import OperationTable, missing_is_404
from batchq.api.operations.operations import JOB, Call
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import StopOrderResponse, stop_order_answer
from batchq.domain.access.accounts import Permission
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import JobId
from batchq.domain.job import Action, Attempt, AttemptContainer, AttemptContainerState, DependencyType, Job, Status
from batchq.domain.lifecycle.views import leading_key, log_stream_of, shown_container_reason
from batchq.domain.times import optional_milliseconds

MAX_DEPENDENTS = 50


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
    state: AttemptContainerState
    #: Milliseconds since 1970, as are all times.
    started_at: int | None = None
    stopped_at: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    #: The order that stopped its node or, of a task, this container alone.
    stop_order: StopOrderResponse | None = None
    log_stream_name: str | None = None


class AttemptResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One attempt. The container of an attempt with several is the one that decided it, or represents it."""

    #: From 1.
    number: int
    compute_environment: str
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
    vcpus: float
    memory_mib: int = field(name="memoryMiB")
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
    #: All orders to cancel or stop the job, oldest first.
    stop_orders: tuple[StopOrderResponse, ...] = ()


class JobResponse(Struct, frozen=True, kw_only=True):
    """The job."""

    job: JobDetails


class JobExplanationResponse(ExplanationResponse, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The explanation of one job."""

    job_id: str


operations = OperationTable(failed=missing_is_404)


@operations.add("GetJob", "GET", JOB, Permission.SELF)
async def get_job(context: Parts, call: Call[None]) -> JobResponse:
    """Describes a job, a child of an array or a node of a multi-node job.

    The id of a child is `ID:INDEX`, that of a node `ID#NODE`; in a URL the `#` is written `%23`. A child that its
    array has not created yet has the status and the hold of the array.
    """
    found = await context.jobs.find(call.job_id, caller=call.caller)
    if found is None:
        raise await context.jobs.missing(call.job_id, caller=call.caller)
    dependents = await context.jobs.dependents(call.job_id, limit=MAX_DEPENDENTS, caller=call.caller)
    rerun = (await context.search.reruns([found])).get(found.id)
    return JobResponse(job=job_details(found, dependents, arns_of(call.http, context), rerun=rerun))


@operations.add("ExplainJob", "GET", f"{JOB}/why", Permission.SELF)
async def explain_job(context: Parts, call: Call[None]) -> JobExplanationResponse:
    """Explains why a job waits, what it does, or why it failed.

    Programs compare `code` and read `facts`; the wording of `sentence` may change.
    """
    answer = explanation_answer(await context.explanations.why(call.job_id, caller=call.caller))
    return JobExplanationResponse(job_id=call.job_id, **asdict(answer))


def job_details(job: Job, dependents: tuple[Job, ...], arns: JobArns, *, rerun: JobId | None) -> JobDetails:
    spec = job.spec
    containers = () if spec.task is None else spec.task.containers
    return JobDetails(
        **row_members(job, arns, rerun=rerun),
        image=spec.container.image,
        command=spec.container.command,
        environment=_environment(spec.container),
        vcpus=spec.resources.millicpus / 1000,
        memory_mib=spec.resources.memory_mib,
        gpus=spec.resources.gpus,
        containers=tuple(
            _container(container.name, container.spec, essential=container.essential) for container in containers
        ),
        depends_on=tuple(
            DependencyResponse(job_id=dependency.job_id, type=dependency.type) for dependency in spec.depends_on
        ),
        dependents=tuple(
            DependentResponse(job_id=dependent.id, job_name=dependent.spec.name, status=dependent.status)
            for dependent in dependents
        ),
        tags=dict(job.tags),
        timeout_seconds=None if spec.timeout is None else int(spec.timeout.total_seconds()),
        stop_grace_seconds=spec.stop_grace.total_seconds(),
        retry_strategy=convert(spec.retry, RetryResponse, from_attributes=True),
        attempts=tuple(_attempt(job, attempt) for attempt in job.all_attempts),
        stop_orders=tuple(map(stop_order_answer, job.stop_orders)),
    )


def _environment(spec: ContainerSpec) -> tuple[EnvironmentVariable, ...]:
    return tuple(EnvironmentVariable(name=name, value=value) for name, value in spec.environment)


def _container(name: str, spec: ContainerSpec, *, essential: bool) -> ContainerResponse:
    return ContainerResponse(
        name=name, essential=essential, image=spec.image, command=spec.command, environment=_environment(spec)
    )


def _attempt(job: Job, attempt: Attempt) -> AttemptResponse:
    return AttemptResponse(
        number=attempt.number,
        compute_environment=attempt.environment,
        started_at=optional_milliseconds(attempt.started_at),
        stopped_at=optional_milliseconds(attempt.stopped_at),
        exit_code=attempt.exit_code,
        reason=shown_container_reason(attempt),
        status_reason=attempt.status_reason,
        paused=attempt.paused,
        log_stream_name=log_stream_of(job, attempt, leading_key(job)) if attempt.started_at else None,
        containers=tuple(_attempt_container(job, attempt, part) for part in attempt.containers),
    )


def _attempt_container(job: Job, run: Attempt, container: AttemptContainer) -> AttemptContainerResponse:
    return AttemptContainerResponse(
        name=container.name,
        node=container.node,
        state=container.state,
        started_at=optional_milliseconds(container.started_at),
        stopped_at=optional_milliseconds(container.stopped_at),
        exit_code=container.exit_code,
        reason=shown_container_reason(container),
        stop_order=None if container.terminated_by is None else stop_order_answer(container.terminated_by),
        log_stream_name=log_stream_of(job, run, container.key) if container.started_at else None,
    )
