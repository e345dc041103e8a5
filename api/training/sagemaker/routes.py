"""The operations of SageMaker's training jobs: Create, Describe, List, Stop and Delete."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from batchq.api.http.http import BODY
from batchq.api.http.page_tokens import SearchToken
from batchq.api.operations.operation_table import CONTENT_TYPE, OperationTable, dialect_of
from batchq.api.operations.operations import BULK_LIMIT, Answer, Call, CallLimit, Operation, aws_operation
from batchq.api.operations.parts import Parts
from batchq.api.operations.schemas import AwsResponse
from batchq.api.training.common.training_jobs import matching_jobs
from batchq.api.training.common.training_request import MAX_REQUEST
from batchq.api.training.sagemaker import wire
from batchq.api.training.sagemaker.create_job import (
    DIALECT,
    bucket_folders,
    queue_of,
    requested_sagemaker_job,
)
from batchq.api.training.sagemaker.job_document import (
    STATUSES,
    TrainingJobStatus,
    described,
    is_training_job,
    summarized,
)
from batchq.api.training.sagemaker.wire import PROFILE, TARGET_PREFIX, sagemaker_refusal, validation_exception
from batchq.domain.access.accounts import Permission
from batchq.domain.enums import FINISHED, StopKind
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_request import StopRequest
from batchq.domain.training_jobs import STOPPABLE, TrainingJobView, statuses_with
from batchq.ports.job_search import PageQuery, SearchPosition

DEFAULT_RESULTS = 10  # as in SageMaker
_PRIMARY = {phase: statuses.primary for phase, statuses in STATUSES.items()}


def check_sagemaker_size(body: bytes) -> None:
    if len(body) > MAX_REQUEST:
        raise validation_exception(f"The request must be at most {MAX_REQUEST} bytes.")


async def create_sagemaker_job(parts: Parts, call: Call[Any], body: wire.SageMakerCreateTrainingJob) -> Answer:
    """Creates a training job.

    No two jobs of a user have the same name, unless the earlier one was deleted.
    """
    caller, name, arn = call.caller, body.TrainingJobName, _arn(parts, call, body.TrainingJobName)
    digest, limits = _digest(call), parts.limits
    requested = requested_sagemaker_job(body, arn=arn, digest=digest, limits=limits, caller=caller)
    with parts.names.reserved(caller.user, name) as is_free:
        existing = await parts.named.own(name, caller=caller)
        if existing is not None and digest and DIALECT.request(existing) == digest:
            return {"TrainingJobArn": arn}
        if existing is not None or not is_free:
            raise sagemaker_refusal("ResourceInUse", f"Training job names must be unique for a user: {name} exists.")
        queue = parts.catalog.queues_of(caller).get(queue_of(body))
        if queue is None:
            raise validation_exception(f"JobQueue {queue_of(body)[:128]} not found.")
        requested = requested.in_queue(queue, caller, priority=0)
        with bucket_folders(limits).naming_uris():
            await requested.submit(parts.submissions, caller=caller)
    return {"TrainingJobArn": arn}


async def describe_sagemaker_job(parts: Parts, call: Call[Any], body: wire.SageMakerNamedTrainingJob) -> Answer:
    """Describes a training job with its statuses and metrics.

    AWS: a job that does not exist is a ValidationException, unlike in the other operations.
    """
    name = body.TrainingJobName
    job = await parts.named.find(name, caller=call.caller)
    if job is None:
        raise validation_exception("Requested resource not found.")
    history = await parts.jobs.history(job.id, caller=call.caller)
    has_final_metrics = job.status in FINISHED and bool(job.spec.metric_rules)
    metrics = await parts.costs.metrics.current(job, caller=call.caller) if has_final_metrics else {}
    view, shown = TrainingJobView(job), bucket_folders(parts.limits).shown
    return described(view, arn=_arn(parts, call, name), history=history, metrics=metrics, shown=shown)


async def stop_sagemaker_job(parts: Parts, call: Call[Any], body: wire.SageMakerNamedTrainingJob) -> None:
    """Stops a training job.

    Its containers get SIGTERM, and SIGKILL 120 s later. The job is requested to write a final checkpoint, by the signal
    that its tags declare, if any.
    """
    job = await _find(parts, call, body)
    phase = TrainingJobView(job).phase
    if phase not in STOPPABLE:
        status = STATUSES[phase].primary
        raise validation_exception(f"The request was rejected because the training job is in status {status}.")
    reason, checkpoint = f"Stopped by {call.caller.user}", job.spec.checkpoints is not None
    order = StopRequest(kind=StopKind.TERMINATE, reason=reason, checkpoint=checkpoint)
    await parts.jobs.stop(job.id, order, caller=call.caller)


async def delete_sagemaker_job(parts: Parts, call: Call[Any], body: wire.SageMakerNamedTrainingJob) -> None:
    """Deletes a training job that has ended.

    The name is free again. The job itself remains until the server's retention removes it.
    """
    job = await _find(parts, call, body)
    if job.status not in FINISHED:
        status = STATUSES[TrainingJobView(job).phase].primary
        raise sagemaker_refusal("ResourceInUse", f"Training job {job.spec.name} is in status {status}.")
    await DIALECT.delete(parts.jobs, job, caller=call.caller)


async def list_sagemaker_jobs(parts: Parts, call: Call[Any], body: wire.SageMakerListTrainingJobs) -> Answer:
    """Lists training jobs, newest first."""
    caller = call.caller
    _refuse_unsupported(body)
    conditions = body.CreationTimeAfter, body.CreationTimeBefore, body.NameContains, body.StatusEquals
    token = SearchToken(parts.tokens, ("ListTrainingJobs", caller.user, *map(str, conditions)))
    position = token.read(body.NextToken or None)
    if body.StatusEquals == "Deleting":
        return {"TrainingJobSummaries": []}
    query = _query(body, position)
    views, position = await matching_jobs(parts.search, query, lambda view: _matches(view, body), caller=caller)
    summaries = [summarized(view, arn=_arn(parts, call, view.job.spec.name)) for view in views]
    after = token.make(position)
    return {"TrainingJobSummaries": summaries, **({} if after is None else {"NextToken": after})}


def _operation(
    name: str,
    handle: Callable[..., Awaitable[Answer | None]],
    *,
    check_body: Callable[[bytes], None] | None = None,
    limit: CallLimit | None = None,
) -> Operation:
    qualified = TARGET_PREFIX + name
    place = {"method": "POST", "path": "/", "target": qualified, "media": CONTENT_TYPE}
    members = {"name": qualified, "answer": AwsResponse("sagemaker", name), "check_body": check_body, "limit": limit}
    return aws_operation("sagemaker", name, Permission.SELF, handle, **place, **members)


operations = OperationTable(
    [
        _operation("CreateTrainingJob", create_sagemaker_job, check_body=check_sagemaker_size),
        _operation("DescribeTrainingJob", describe_sagemaker_job),
        _operation("ListTrainingJobs", list_sagemaker_jobs, limit=BULK_LIMIT),
        _operation("StopTrainingJob", stop_sagemaker_job),
        _operation("DeleteTrainingJob", delete_sagemaker_job),
    ],
)
dialect = dialect_of(operations, profile=lambda _: PROFILE)


def _arn(parts: Parts, call: Call[Any], name: str) -> str:
    return f"arn:aws:sagemaker:{parts.region_of(call.http)}:{parts.account}:training-job/{name}"


def _digest(call: Call[Any]) -> str:
    """Identifies a request that an SDK repeats: with the same header amz-sdk-invocation-id. Empty without one."""
    invocation = call.http.headers.get("amz-sdk-invocation-id", "")[:128]
    return sha256(invocation.encode() + b"\0" + call.http[BODY]).hexdigest() if invocation else ""


async def _find(parts: Parts, call: Call[Any], body: wire.SageMakerNamedTrainingJob) -> Job:
    """The job that a request names. Raises HttpRefusal."""
    job = await parts.named.find(body.TrainingJobName, caller=call.caller)
    if job is None:
        raise sagemaker_refusal("ResourceNotFound", "Requested resource not found.")
    return job


def _refuse_unsupported(body: wire.SageMakerListTrainingJobs) -> None:
    unsupported = {
        "SortBy": body.SortBy not in {None, "CreationTime"},
        "SortOrder": body.SortOrder not in {None, "Descending"},
        "LastModifiedTimeAfter": body.LastModifiedTimeAfter is not None,
        "LastModifiedTimeBefore": body.LastModifiedTimeBefore is not None,
        "WarmPoolStatusEquals": body.WarmPoolStatusEquals is not None,
        "TrainingPlanArnEquals": body.TrainingPlanArnEquals is not None,
    }
    for member, is_used in unsupported.items():
        if is_used:
            value = getattr(body, member)
            raise validation_exception(f"{member} {str(value)[:40]} is not supported by this server.")


def _query(body: wire.SageMakerListTrainingJobs, position: SearchPosition | None) -> PageQuery:
    selection = JobSelection(
        statuses=None if body.StatusEquals is None else statuses_with(_PRIMARY, TrainingJobStatus(body.StatusEquals)),
        names=None if body.NameContains is None else frozenset({f"*{body.NameContains}*"}),
        definitions=frozenset({f"{DIALECT.name}_*"}),
        created_after=_milliseconds(body.CreationTimeAfter),
        created_before=_milliseconds(body.CreationTimeBefore),
    )
    return PageQuery(selection=selection, limit=body.MaxResults or DEFAULT_RESULTS, before=position)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _matches(view: TrainingJobView, body: wire.SageMakerListTrainingJobs) -> bool:
    return (
        is_training_job(view.job)
        and (body.NameContains or "") in view.job.spec.name
        and body.StatusEquals in {None, _PRIMARY[view.phase]}
    )
