"""GetOverview: `POST /v1/batchq/overview` describes the server in one small reply, for a caller who looks often."""

from msgspec import Struct, field

from batchq.accounts.wire import EmptyRequest
from batchq.api.native.job_search import (
    ExplanationResponse,
    JobArns,
    JobRow,
    arns_of,
    explanation_answer,
    job_row,
)
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission, Role
from batchq.domain.catalog import State
from batchq.domain.explanation.explanation import Explanation
from batchq.domain.job import Status
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.ports.jobs import Failures
from batchq.services.overview import EnvironmentOverview, Overview, QueueOverview, ServerState


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
    """Memory or GPUs of the machine, which all compute environments share."""

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


operations = OperationTable()


@operations.add("GetOverview", "POST", "/v1/batchq/overview", Permission.SELF)
async def get_overview(parts: Parts, call: Call[EmptyRequest]) -> OverviewResponse:
    """Describes queues, capacity, the longest running jobs and recent failures in one small reply.

    Counts are kept in memory: the reply costs the same however many jobs are stored.
    """
    found = await parts.overviews.overview(caller=call.caller)
    why = await parts.explanations.heads([overview.queue.name for overview in found.queues], caller=call.caller)
    queues = tuple(_queue(overview, why.get(overview.queue.name)) for overview in found.queues)
    return _answer(found, queues, call.caller, arns_of(call.http, parts))


def _answer(overview: Overview, queues: tuple[QueueResponse, ...], caller: Caller, arns: JobArns) -> OverviewResponse:
    return OverviewResponse(
        at=milliseconds(overview.at),
        user=caller.user,
        account=caller.account,
        role=caller.role,
        engine=EngineResponse(
            state=overview.engine, sentence=overview.sentence, since=optional_milliseconds(overview.since)
        ),
        queues=queues,
        capacity=tuple(_environment(environment, overview) for environment in overview.environments),
        longest_running=tuple(job_row(job, arns) for job in overview.longest_running),
        failed=_failures(overview.failures),
    )


def _queue(overview: QueueOverview, why: Explanation | None) -> QueueResponse:
    return QueueResponse(
        job_queue=overview.queue.name,
        state=overview.queue.state,
        drained=overview.queue.drained,
        priority=overview.queue.priority,
        counts=dict(overview.counts),
        arrays=overview.arrays,
        oldest_runnable_at=optional_milliseconds(overview.oldest_runnable_at),
        why=None if why is None else explanation_answer(why),
    )


def _environment(other_overview: EnvironmentOverview, overview: Overview) -> EnvironmentResponse:
    host = overview.host
    return EnvironmentResponse(
        compute_environment=other_overview.environment.name,
        state=other_overview.environment.state,
        vcpus=VcpusResponse(
            limit=other_overview.environment.max_millicpus / 1000, requested=other_overview.millicpus / 1000
        ),
        memory_mib=CapacityResponse(limit=None if host is None else host.memory_mib, requested=overview.memory_mib),
        gpus=CapacityResponse(limit=None if host is None else host.gpus, requested=overview.gpus),
    )


def _failures(failures: Failures) -> FailuresResponse:
    groups = tuple(
        FailureGroupResponse(job_definition=str(group.definition), reason=group.reason, count=group.count)
        for group in failures.groups
    )
    return FailuresResponse(count=failures.count, more=failures.more, groups=groups)
