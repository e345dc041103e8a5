"""GetJob and ExplainJob: one job, a child `ID:3` of an array, or a node `ID#1` (`ID%231` in a URL). See docs/why.md."""

from msgspec import convert
from msgspec.structs import asdict

from batchq.api.http.answers import answer_of
from batchq.api.native.job_search import (
    JobArns,
    arns_of,
    explanation_answer,
    row_members,
)
from batchq.api.operations.operation_table import OperationTable, missing_is_404
from batchq.api.operations.operations import JOB, Call
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import stop_order_answer, use_answer
from batchq.domain.access.accounts import Permission
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import node_of
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.views import leading_key, log_stream_of, shown_container_reason, shown_task
from batchq.domain.task import DefinitionForm
from batchq.ports.responses.costs import CostResponse
from batchq.ports.responses.job_details import (
    AttemptContainerResponse,
    AttemptResponse,
    ContainerResponse,
    DependencyResponse,
    DependentResponse,
    EnvironmentVariable,
    JobDetails,
    JobResponse,
    RetryResponse,
)
from batchq.ports.responses.jobs import JobExplanationResponse
from batchq.services.job_views import JobView

operations = OperationTable(failed=missing_is_404)


@operations.add("GetJob", "GET", JOB, Permission.SELF)
async def get_job(parts: Parts, call: Call[None]) -> JobResponse:
    """Describes a job, a child of an array or a node of a multi-node job.

    The id of a child is `ID:INDEX`, that of a node `ID#NODE`; in a URL the `#` is written `%23`. A child that its
    array has not created yet has the status and the hold of the array.
    """
    view = await parts.views.detailed(call.job_id, caller=call.caller)
    return JobResponse(
        job=job_details(await parts.views.with_cost(view, caller=call.caller), arns_of(call.http, parts))
    )


@operations.add("ExplainJob", "GET", f"{JOB}/why", Permission.SELF)
async def explain_job(parts: Parts, call: Call[None]) -> JobExplanationResponse:
    """Explains why a job waits, what it does, or why it failed.

    Programs compare `code` and read `facts`; the wording of `sentence` may change.
    """
    answer = explanation_answer(await parts.explanations.why(call.job_id, caller=call.caller))
    return JobExplanationResponse(job_id=call.job_id, **asdict(answer))


def job_details(view: JobView, arns: JobArns) -> JobDetails:
    job, spec = view.job, view.job.spec
    form, container = spec.nodes.form, shown_task(job).leading.spec
    is_whole = form is DefinitionForm.NODES and node_of(job.id)[1] is None
    containers = () if is_whole or form is DefinitionForm.CONTAINER else shown_task(job).containers
    return JobDetails(
        **row_members(view, arns),
        image=container.image,
        command=container.command,
        environment=_environment(container),
        gpus=spec.resources.gpus,
        containers=tuple(
            _container(container.name, container.spec, essential=container.essential) for container in containers
        ),
        depends_on=tuple(
            DependencyResponse(job_id=dependency.job_id, type=dependency.type) for dependency in spec.depends_on
        ),
        dependents=tuple(
            DependentResponse(job_id=dependent.id, job_name=dependent.spec.name, status=dependent.status)
            for dependent in view.dependents
        ),
        tags=dict(job.tags),
        timeout_seconds=None if spec.timeout is None else int(spec.timeout.total_seconds()),
        stop_grace_seconds=spec.stop_grace.total_seconds(),
        retry_strategy=convert(spec.retry, RetryResponse, from_attributes=True),
        attempts=tuple(_attempt(job, attempt) for attempt in job.all_attempts),
        cost=None if view.cost is None else answer_of(CostResponse, view.cost),
        stop_orders=tuple(map(stop_order_answer, job.stop_orders)),
    )


def _environment(spec: ContainerSpec) -> tuple[EnvironmentVariable, ...]:
    return tuple(EnvironmentVariable(name=name, value=value) for name, value in spec.environment)


def _container(name: str, spec: ContainerSpec, *, essential: bool) -> ContainerResponse:
    return ContainerResponse(
        name=name, essential=essential, image=spec.image, command=spec.command, environment=_environment(spec)
    )


def _attempt(job: Job, attempt: Attempt) -> AttemptResponse:
    return answer_of(
        AttemptResponse,
        attempt,
        compute_environment=attempt.environment,
        machine=next((part.machine for part in attempt.containers if part.key == leading_key(job)), None),
        reason=shown_container_reason(attempt),
        use=use_answer(attempt.use),
        log_stream_name=log_stream_of(job, attempt, leading_key(job)) if attempt.started_at else None,
        containers=()
        if job.spec.nodes.form is DefinitionForm.CONTAINER
        else tuple(_attempt_container(job, attempt, container) for container in attempt.containers),
    )


def _attempt_container(job: Job, run: Attempt, container: AttemptContainer) -> AttemptContainerResponse:
    return answer_of(
        AttemptContainerResponse,
        container,
        reason=shown_container_reason(container),
        use=use_answer(container.use),
        stop_order=None if container.terminated_by is None else stop_order_answer(container.terminated_by),
        log_stream_name=log_stream_of(job, run, container.key) if container.started_at else None,
    )
