"""The operations of the ModelArts dialect."""

from collections.abc import Mapping

from msgspec import Struct

from batchq.api.modelarts import flavors as flavor_table
from batchq.api.modelarts.codes import (
    DUPLICATE_NAME,
    INVALID_PARAMETER,
    NOT_SUPPORTED,
    NOT_TERMINABLE,
    QUOTA_EXCEEDED,
    STATUS_CHANGED,
    UNSUPPORTED_ACTION,
    refusal,
)
from batchq.api.modelarts.context import ModelArtsContext
from batchq.api.modelarts.create_job import DEFAULT_POOL, definition_prefix, share_of, to_new_job
from batchq.api.modelarts.events import TrainingEventsAnswer, TrainingStagesAnswer, events_answer, stages_answer
from batchq.api.modelarts.flavors import TrainingFlavorsAnswer
from batchq.api.modelarts.job_document import (
    DELETED_TAG,
    DESCRIPTION_TAG,
    TrainingJobAnswer,
    node_id_of,
)
from batchq.api.modelarts.phases import TERMINABLE, Phase
from batchq.api.modelarts.search import TrainingJobsAnswer, search_jobs
from batchq.api.modelarts.wire import (
    CreateTrainingJob,
    EventsQuery,
    FlavorsQuery,
    TrainingJobAction,
    TrainingJobSearch,
    TrainingJobUpdate,
    parse,
    parse_query,
)
from batchq.domain.access.accounts import Caller
from batchq.domain.ids import QueueName
from batchq.domain.job import FINISHED, Status
from batchq.errors import LimitExceeded
from batchq.ports.job_search import JobSearchQuery
from batchq.services.job_log import JobLogQuery

PREVIEW_LINES = 100_000  # at most 1 MiB of them

_UNFINISHED = frozenset(Status) - FINISHED


class ModelArtsRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    caller: Caller
    project: str
    #: The id of the job in the path; empty if there is none.
    job: str
    #: The task in the path, as `worker-0`; empty if there is none.
    task: str
    query: Mapping[str, str]
    body: bytes


class EmptyAnswer(Struct, frozen=True, kw_only=True):
    """Nothing: the operation succeeded."""


class TrainingLogPreview(Struct, frozen=True, kw_only=True):
    """The end of a task's log."""

    content: str
    #: Bytes of `content`.
    current_size: int
    #: Bytes of the whole log as it is stored, if `content` is a part of it; else as `current_size`.
    full_size: int


class TrainingEngineImage(Struct, frozen=True, kw_only=True):
    """The image of an engine."""

    #: As in the settings of the server.
    cpu_image_url: str


class TrainingEngine(Struct, frozen=True, kw_only=True):
    """An AI engine: a name for an image."""

    engine_id: str
    engine_name: str
    engine_version: str
    image_info: TrainingEngineImage


class TrainingEnginesAnswer(Struct, frozen=True, kw_only=True):
    """All engines."""

    total: int
    items: tuple[TrainingEngine, ...]


async def create(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingJobAnswer:
    """CreateTrainingJob. No two unfinished jobs of a project that the caller sees have the same name."""
    body, caller = parse(CreateTrainingJob, request.body), request.caller
    queue = context.catalog.queues_of(caller).get(QueueName(body.spec.resource.pool_id or DEFAULT_POOL))
    if queue is None:
        raise refusal(INVALID_PARAMETER, "spec.resource.pool_id", solution="It must be the name of a job queue.")
    share = None if queue.policy is None else share_of(caller)
    new = to_new_job(body, project=request.project, settings=context.settings, capacity=context.capacity(), share=share)
    name = new.submission.name
    with context.names.reserved(request.project, caller.user, name) as is_free:
        if not is_free or await _is_taken(context, request, name):
            raise refusal(DUPLICATE_NAME, name, solution="Use another name, or wait until that job has ended.")
        try:
            job = await context.submissions.submit(new.submission, new.work, caller=caller)
        except LimitExceeded as why:
            raise refusal(QUOTA_EXCEEDED, "jobs", solution=str(why)) from None
    return context.describe(job, caller)


async def show(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingJobAnswer:
    """ShowTrainingJobDetails."""
    return context.describe(await context.find(request.job, request.caller), request.caller)


async def act(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingJobAnswer:
    """StopTrainingJob. The first order stands, so a job that is Terminating cannot be terminated again."""
    body, caller = parse(TrainingJobAction, request.body), request.caller
    if body.action_type != "terminate":
        raise refusal(UNSUPPORTED_ACTION, body.action_type, solution="Use terminate.")
    job = await context.find(request.job, caller)
    if context.phases(job, caller).phase not in TERMINABLE:
        raise refusal(NOT_TERMINABLE, solution="Check whether the job status is valid.")
    await context.jobs.terminate(job.id, f"Terminated by {caller.user}", caller=caller)
    after = await context.find(request.job, caller)
    if context.phases(after, caller).phase not in {Phase.TERMINATING, Phase.TERMINATED}:
        raise refusal(STATUS_CHANGED, solution="The job ended before it was terminated.")
    return context.describe(after, caller)


async def delete(context: ModelArtsContext, request: ModelArtsRequest) -> EmptyAnswer:
    """DeleteTrainingJob."""
    job = await context.find(request.job, request.caller)
    if job.status not in FINISHED:
        raise refusal(NOT_TERMINABLE, solution="Only a job that has ended can be deleted.")
    await context.jobs.tag(job.id, ((DELETED_TAG, job.id),), caller=request.caller)
    return EmptyAnswer()


async def update(context: ModelArtsContext, request: ModelArtsRequest) -> EmptyAnswer:
    """ChangeTrainingJobDescription."""
    body = parse(TrainingJobUpdate, request.body)
    if body.spec or body.endpoints or body.metadata:
        raise refusal(NOT_SUPPORTED, "change of other members than description")
    if body.description is None:
        raise refusal(INVALID_PARAMETER, "description")
    job = await context.find(request.job, request.caller)
    await context.jobs.tag(job.id, ((DESCRIPTION_TAG, body.description),), caller=request.caller)
    return EmptyAnswer()


async def search(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingJobsAnswer:
    """ListTrainingJobs."""
    body = parse(TrainingJobSearch, request.body)
    return await search_jobs(context, body, project=request.project, caller=request.caller)


async def events(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingEventsAnswer:
    """ListTrainingJobEvents."""
    query = parse_query(EventsQuery, request.query)
    job = await context.find(request.job, request.caller)
    return events_answer(await context.jobs.history(job.id, caller=request.caller), query)


async def stages(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingStagesAnswer:
    """ListTrainingJobStages."""
    return stages_answer(await context.find(request.job, request.caller))


async def log_preview(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingLogPreview | None:
    """ShowTrainingJobLogsPreview. None until the task has run."""
    job = await context.find(request.job, request.caller)
    job_id = node_id_of(job, request.task)
    if job_id is None:
        raise refusal(INVALID_PARAMETER, "task_id", solution="Use one of status.tasks of the job.")
    query = JobLogQuery(job_id=job_id, tail=PREVIEW_LINES, limit=PREVIEW_LINES, wait=0)
    page = await context.logs.page(query, caller=request.caller)
    if page.next is None:
        return None
    content = "".join(f"{it.message}\n" for it in page.lines)
    size = len(content.encode())
    is_whole = not page.lines or page.lines[0].position == 0
    full_size = size if is_whole else max(size, page.next.position)
    return TrainingLogPreview(content=content, current_size=size, full_size=full_size)


async def flavors(context: ModelArtsContext, request: ModelArtsRequest) -> TrainingFlavorsAnswer:
    """ShowTrainingJobFlavors."""
    return flavor_table.listed(parse_query(FlavorsQuery, request.query).flavor_type, context.capacity())


async def engines(context: ModelArtsContext, _: ModelArtsRequest) -> TrainingEnginesAnswer:
    """ShowTrainingJobEngines."""
    items = tuple(
        TrainingEngine(
            engine_id=it.id,
            engine_name=it.name,
            engine_version=it.version,
            image_info=TrainingEngineImage(cpu_image_url=it.image),
        )
        for it in context.settings.engines
    )
    return TrainingEnginesAnswer(total=len(items), items=items)


async def _is_taken(context: ModelArtsContext, request: ModelArtsRequest, name: str) -> bool:
    """Whether an unfinished job of the project that the caller sees has the name."""
    query = JobSearchQuery(
        definitions=frozenset({f"{definition_prefix(request.project)}_*"}),
        names=frozenset({name}),
        statuses=_UNFINISHED,
        limit=20,
    )
    page = await context.search.search(query, caller=request.caller)
    return any(it.spec.name == name for it in page.jobs)
