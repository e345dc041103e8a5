"""The operations of SageMaker's training jobs: Create, Describe, List, Stop and Delete."""

from collections.abc import Mapping

from aiohttp import web
from msgspec import Struct

from batchq.api.auth.authentication import authorize, parse_credential
from batchq.api.http.dialect_profiles import register_dialect_profile
from batchq.api.http.http import Dialect, read_body, reply
from batchq.api.operations.operations import Answer, Operation, add_targets, takes, target_docs, unknown_operation
from batchq.api.operations.parts import Parts
from batchq.api.training.common.training_jobs import ListToken, matching_jobs
from batchq.api.training.common.training_request import MAX_REQUEST
from batchq.api.training.sagemaker import wire
from batchq.api.training.sagemaker.create_job import (
    DIALECT,
    bucket_folders,
    queue_of,
    request_digest,
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
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.job import FINISHED, Job
from batchq.domain.training_jobs import STOPPABLE, TrainingJobView, statuses_with
from batchq.ports.job_search import JobSearchQuery, SearchPosition

DEFAULT_RESULTS = 10  # as in SageMaker
_PRIMARY = {phase: statuses.primary for phase, statuses in STATUSES.items()}


class SageMakerRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    body: bytes
    caller: Caller
    #: The ARN of a training job without its name.
    arn_prefix: str
    #: The header amz-sdk-invocation-id: an SDK repeats a request with the same id. Empty: none.
    invocation: str

    def arn(self, name: str) -> str:
        return self.arn_prefix + name


def check_sagemaker_size(body: bytes) -> None:
    if len(body) > MAX_REQUEST:
        raise validation_exception(f"The request must be at most {MAX_REQUEST} bytes.")


@takes(wire.SageMakerCreateTrainingJob, check=check_sagemaker_size)
async def create_sagemaker_job(
    context: Parts, request: SageMakerRequest, body: wire.SageMakerCreateTrainingJob
) -> Answer:
    """Creates a training job.

    No two jobs of a user have the same name, unless the earlier one was deleted.
    """
    caller, name, arn = request.caller, body.TrainingJobName, request.arn(body.TrainingJobName)
    queue = context.catalog.queues_of(caller).get(queue_of(body))
    if queue is None:
        raise validation_exception(f"JobQueue {queue_of(body)[:128]} not found.")
    digest, limits = request_digest(request.invocation, request.body), context.limits
    requested = requested_sagemaker_job(body, arn=arn, digest=digest, limits=limits, caller=caller)
    requested = requested.in_queue(queue, caller, priority=0)
    with context.names.reserved(caller.user, name) as is_free:
        existing = await context.named.own(name, caller=caller)
        if existing is not None and digest and DIALECT.request(existing) == digest:
            return {"TrainingJobArn": arn}
        if existing is not None or not is_free:
            raise sagemaker_refusal("ResourceInUse", f"Training job names must be unique for a user: {name} exists.")
        with bucket_folders(limits).naming_uris():
            await requested.submit(context.submissions, caller=caller)
    return {"TrainingJobArn": arn}


@takes(wire.SageMakerNamedTrainingJob)
async def describe_sagemaker_job(
    context: Parts, request: SageMakerRequest, body: wire.SageMakerNamedTrainingJob
) -> Answer:
    """Describes a training job with its statuses and metrics.

    AWS: a job that does not exist is a ValidationException, unlike in the other operations.
    """
    name = body.TrainingJobName
    job = await context.named.find(name, caller=request.caller)
    if job is None:
        raise validation_exception("Requested resource not found.")
    history = await context.jobs.history(job.id, caller=request.caller)
    has_final_metrics = job.status in FINISHED and bool(job.spec.metric_rules)
    metrics = await context.costs.metrics.current(job, caller=request.caller) if has_final_metrics else {}
    view, shown = TrainingJobView(job), bucket_folders(context.limits).shown
    return described(view, arn=request.arn(name), history=history, metrics=metrics, shown=shown)


@takes(wire.SageMakerNamedTrainingJob)
async def stop_sagemaker_job(context: Parts, request: SageMakerRequest, body: wire.SageMakerNamedTrainingJob) -> Answer:
    """Stops a training job.

    Its containers get SIGTERM, and SIGKILL 120 s later. The job is requested to write a final checkpoint, by the signal
    that its tags declare, if any.
    """
    job = await _find(context, request, body)
    phase = TrainingJobView(job).phase
    if phase not in STOPPABLE:
        status = STATUSES[phase].primary
        raise validation_exception(f"The request was rejected because the training job is in status {status}.")
    reason, checkpoint = f"Stopped by {request.caller.user}", job.spec.checkpoints is not None
    await context.jobs.terminate(job.id, reason, checkpoint=checkpoint, caller=request.caller)
    return {}


@takes(wire.SageMakerNamedTrainingJob)
async def delete_sagemaker_job(
    context: Parts, request: SageMakerRequest, body: wire.SageMakerNamedTrainingJob
) -> Answer:
    """Deletes a training job that has ended.

    The name is free again. The job itself remains until the server's retention removes it.
    """
    job = await _find(context, request, body)
    if job.status not in FINISHED:
        status = STATUSES[TrainingJobView(job).phase].primary
        raise sagemaker_refusal("ResourceInUse", f"Training job {job.spec.name} is in status {status}.")
    await DIALECT.delete(context.jobs, job, caller=request.caller)
    return {}


@takes(wire.SageMakerListTrainingJobs)
async def list_sagemaker_jobs(
    context: Parts, request: SageMakerRequest, body: wire.SageMakerListTrainingJobs
) -> Answer:
    """Lists training jobs, newest first."""
    caller = request.caller
    _refuse_unsupported(body)
    conditions = body.CreationTimeAfter, body.CreationTimeBefore, body.NameContains, body.StatusEquals
    token = ListToken(context.tokens, ("ListTrainingJobs", caller.user, *map(str, conditions)))
    position = token.read(body.NextToken or None)
    if body.StatusEquals == "Deleting":
        return {"TrainingJobSummaries": []}
    query = _query(body, position)
    async with context.lists.of(caller.user):
        views, position = await matching_jobs(context.search, query, lambda view: _matches(view, body), caller=caller)
    summaries = [summarized(view, arn=request.arn(view.job.spec.name)) for view in views]
    after = token.make(position)
    return {"TrainingJobSummaries": summaries, **({} if after is None else {"NextToken": after})}


OPERATIONS: Mapping[str, Operation[SageMakerRequest]] = {
    "CreateTrainingJob": create_sagemaker_job,
    "DescribeTrainingJob": describe_sagemaker_job,
    "ListTrainingJobs": list_sagemaker_jobs,
    "StopTrainingJob": stop_sagemaker_job,
    "DeleteTrainingJob": delete_sagemaker_job,
}


def dialect(context: Parts) -> Dialect:
    async def handle(request: web.Request, name: str) -> web.Response:
        operation = OPERATIONS.get(name)
        if operation is None:
            return unknown_operation(TARGET_PREFIX + name)
        return reply(await operation(context, await _request(request, context, name)))

    def mount(app: web.Application) -> None:
        register_dialect_profile(app, PROFILE)
        docs = target_docs(TARGET_PREFIX, OPERATIONS, service="sagemaker", qualified=True)
        add_targets(app, TARGET_PREFIX, handle, docs)

    return mount


async def _request(request: web.Request, context: Parts, name: str) -> SageMakerRequest:
    region = parse_credential(request.headers.get("Authorization", "")).region or context.region
    return SageMakerRequest(
        body=await read_body(request),
        caller=authorize(request, Permission.SELF, TARGET_PREFIX + name),
        arn_prefix=f"arn:aws:sagemaker:{region}:{context.account}:training-job/",
        invocation=request.headers.get("amz-sdk-invocation-id", "")[:128],
    )


async def _find(context: Parts, request: SageMakerRequest, body: wire.SageMakerNamedTrainingJob) -> Job:
    """The job that a request names. Raises HttpRefusal."""
    job = await context.named.find(body.TrainingJobName, caller=request.caller)
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


def _query(body: wire.SageMakerListTrainingJobs, position: SearchPosition | None) -> JobSearchQuery:
    return JobSearchQuery(
        statuses=None if body.StatusEquals is None else statuses_with(_PRIMARY, TrainingJobStatus(body.StatusEquals)),
        names=None if body.NameContains is None else frozenset({f"*{body.NameContains}*"}),
        definitions=frozenset({f"{DIALECT.name}_*"}),
        created_after=_milliseconds(body.CreationTimeAfter),
        created_before=_milliseconds(body.CreationTimeBefore),
        limit=body.MaxResults or DEFAULT_RESULTS,
        before=position,
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _matches(view: TrainingJobView, body: wire.SageMakerListTrainingJobs) -> bool:
    return (
        is_training_job(view.job)
        and (body.NameContains or "") in view.job.spec.name
        and body.StatusEquals in {None, _PRIMARY[view.phase]}
    )
