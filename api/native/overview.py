"""GetOverview: `POST /v1/batchq/overview` describes the server in one small reply, for a caller who looks often."""

from batchq.accounts.wire import EmptyRequest
from batchq.api.http.answers import answer_of
from batchq.api.native.job_search import (
    JobArns,
    arns_of,
    explanation_answer,
    job_row,
)
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.explanation.explanation import Explanation
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.ports.jobs import Failures
from batchq.ports.responses.server import (
    CapacityResponse,
    EngineResponse,
    EnvironmentResponse,
    FailureGroupResponse,
    FailuresResponse,
    OverviewResponse,
    QueueResponse,
    VcpusResponse,
)
from batchq.services.job_views import JobView
from batchq.services.overview import EnvironmentOverview, Overview, QueueOverview

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
        capacity=tuple(map(_environment, overview.environments)),
        longest_running=tuple(job_row(JobView(job=job), arns) for job in overview.longest_running),
        failed=_failures(overview.failures),
    )


def _queue(overview: QueueOverview, why: Explanation | None) -> QueueResponse:
    return answer_of(
        QueueResponse,
        overview.queue,
        job_queue=overview.queue.name,
        counts=dict(overview.counts),
        arrays=overview.arrays,
        oldest_runnable_at=optional_milliseconds(overview.oldest_runnable_at),
        why=None if why is None else explanation_answer(why),
    )


def _environment(overview: EnvironmentOverview) -> EnvironmentResponse:
    environment, machines = overview.environment, overview.machines
    return EnvironmentResponse(
        compute_environment=environment.name,
        state=environment.state,
        vcpus=VcpusResponse(limit=environment.max_millicpus / 1000, requested=overview.millicpus / 1000),
        memory_mib=CapacityResponse(
            limit=None if machines is None else machines.memory_mib, requested=overview.memory_mib
        ),
        gpus=CapacityResponse(limit=None if machines is None else machines.gpus, requested=overview.gpus),
    )


def _failures(failures: Failures) -> FailuresResponse:
    groups = tuple(
        FailureGroupResponse(job_definition=str(group.definition), reason=group.reason, count=group.count)
        for group in failures.groups
    )
    return FailuresResponse(count=failures.count, more=failures.more, groups=groups)
