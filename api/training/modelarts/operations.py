"""The operations of the ModelArts dialect: `/v2/{project}/training-jobs` and what belongs to it."""

from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.operations.operation_table import OperationTable, dialect_of
from batchq.api.operations.operations import BULK_LIMIT, Call
from batchq.api.operations.parts import Parts
from batchq.api.training.common.training_request import DEFAULT_QUEUE
from batchq.api.training.modelarts.context import ModelArtsSettings, describe_modelarts_job, find_modelarts_job
from batchq.api.training.modelarts.create_job import requested_modelarts_job
from batchq.api.training.modelarts.flavors import TrainingFlavorsResponse, training_flavors
from batchq.api.training.modelarts.job_document import (
    DESCRIPTION_TAG,
    DIALECT,
    Phase,
    TrainingJobResponse,
    definition_prefix,
    node_id_of,
)
from batchq.api.training.modelarts.lists import (
    TrainingEventsResponse,
    TrainingJobsResponse,
    TrainingStagesResponse,
    events_answer,
    search_modelarts_jobs,
    stages_answer,
)
from batchq.api.training.modelarts.wire import (
    DUPLICATE_NAME,
    INVALID_PARAMETER,
    NOT_SUPPORTED,
    NOT_TERMINABLE,
    OTHER_PROJECT,
    PROFILE,
    QUOTA_EXCEEDED,
    STATUS_CHANGED,
    UNSUPPORTED_ACTION,
    CreateTrainingJob,
    FlavorsQuery,
    ModelArtsRefusal,
    TrainingEventsQuery,
    TrainingJobAction,
    TrainingJobSearch,
    TrainingJobUpdate,
)
from batchq.domain.access.accounts import Permission
from batchq.domain.enums import FINISHED, StopKind
from batchq.domain.ids import QueueName
from batchq.domain.job_selection import UNFINISHED, JobSelection
from batchq.domain.stop_request import StopRequest
from batchq.domain.training_jobs import STOPPABLE, TrainingJobView
from batchq.errors import LimitExceeded
from batchq.ports.job_search import PageQuery
from batchq.ports.responses.server import EmptyResponse
from batchq.services.job_log import JobLogQuery

PROJECT_HEADER = "X-Project-Id"
PROJECT = "/v2/{project:(?!training/)[A-Za-z0-9-]{1,64}}"
JOBS = f"{PROJECT}/training-jobs"
JOB = f"{JOBS}/{{job}}"
PREVIEW_LINES = 100_000  # at most 1 MiB of them


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


class TrainingEnginesResponse(Struct, frozen=True, kw_only=True):
    """All engines."""

    total: int
    items: tuple[TrainingEngine, ...]


def _check_project(request: web.Request) -> None:
    project = request.match_info["project"]
    if request.headers.get(PROJECT_HEADER, project) != project:
        raise ModelArtsRefusal(OTHER_PROJECT)


operations = OperationTable(check=_check_project)


dialect = dialect_of(operations, profile=lambda _: PROFILE)


@operations.add("ModelArts.CreateTrainingJob", "POST", JOBS, Permission.SELF, status=HTTPStatus.CREATED)
async def create_modelarts_job(parts: Parts, call: Call[CreateTrainingJob]) -> TrainingJobResponse:
    """Creates a training job."""
    body, caller, project = call.input, call.caller, call.path["project"]
    queue = parts.catalog.queues_of(caller).get(QueueName(body.spec.resource.pool_id or DEFAULT_QUEUE))
    if queue is None:
        raise ModelArtsRefusal(
            INVALID_PARAMETER, "spec.resource.pool_id", solution="It must be the name of a job queue."
        )
    settings = parts.state(ModelArtsSettings)
    request = requested_modelarts_job(body, project=project, settings=settings, capacity=parts.capacity())
    request = request.in_queue(queue, caller, priority=1)
    # No two unfinished jobs of a project that the caller sees have the same name.
    name = request.name
    with parts.names.reserved(project, caller.user, name) as is_free:
        if not is_free or await _is_taken(parts, call, name):
            raise ModelArtsRefusal(DUPLICATE_NAME, name, solution="Use another name, or wait until that job has ended.")
        try:
            with settings.folders.naming_uris():
                job = await request.submit(parts.submissions, caller=caller)
        except LimitExceeded as why:
            raise ModelArtsRefusal(QUOTA_EXCEEDED, "jobs", solution=str(why)) from None
    return describe_modelarts_job(parts, job)


@operations.add("ModelArts.ShowTrainingJobDetails", "GET", JOB, Permission.SELF)
async def show_training_job(parts: Parts, call: Call[None]) -> TrainingJobResponse:
    """Describes a job, of this or another dialect."""
    return describe_modelarts_job(parts, await find_modelarts_job(parts, call))


@operations.add("ModelArts.StopTrainingJob", "POST", f"{JOB}/actions", Permission.SELF, status=HTTPStatus.ACCEPTED)
async def stop_training_job(parts: Parts, call: Call[TrainingJobAction]) -> TrainingJobResponse:
    """Terminates a job that is Creating, Pending or Running.

    The only `action_type` is `terminate`. A job without a container is Terminated at once.
    """
    action, caller = call.input.action_type, call.caller
    if action != "terminate":
        raise ModelArtsRefusal(UNSUPPORTED_ACTION, action, solution="Use terminate.")
    job = await find_modelarts_job(parts, call)
    if TrainingJobView(job).phase not in STOPPABLE:
        raise ModelArtsRefusal(NOT_TERMINABLE, solution="Check whether the job status is valid.")
    order = StopRequest(kind=StopKind.TERMINATE, reason=f"Terminated by {caller.user}")
    await parts.jobs.stop(job.id, order, caller=caller)
    answer = describe_modelarts_job(parts, await find_modelarts_job(parts, call))
    if answer.status.phase not in {Phase.TERMINATING, Phase.TERMINATED}:
        raise ModelArtsRefusal(STATUS_CHANGED, solution="The job ended before it was terminated.")
    return answer


@operations.add("ModelArts.DeleteTrainingJob", "DELETE", JOB, Permission.SELF, status=HTTPStatus.ACCEPTED)
async def delete_training_job(parts: Parts, call: Call[None]) -> EmptyResponse:
    """Hides a finished job from this dialect.

    The record and its logs are removed after the server's retention period.
    """
    job = await find_modelarts_job(parts, call)
    if job.status not in FINISHED:
        raise ModelArtsRefusal(NOT_TERMINABLE, solution="Only a job that has ended can be deleted.")
    await DIALECT.delete(parts.jobs, job, caller=call.caller)
    return EmptyResponse()


@operations.add("ModelArts.ChangeTrainingJobDescription", "PUT", JOB, Permission.SELF)
async def change_description(parts: Parts, call: Call[TrainingJobUpdate]) -> EmptyResponse:
    """Changes the description of a job."""
    body = call.input
    if body.spec or body.endpoints or body.metadata:
        raise ModelArtsRefusal(NOT_SUPPORTED, "change of other members than description")
    if body.description is None:
        raise ModelArtsRefusal(INVALID_PARAMETER, "description")
    job = await find_modelarts_job(parts, call)
    await parts.jobs.tag(job.id, ((DESCRIPTION_TAG, body.description),), caller=call.caller)
    return EmptyResponse()


@operations.add(
    "ModelArts.ListTrainingJobs", "POST", f"{PROJECT}/training-job-searches", Permission.SELF, limit=BULK_LIMIT
)
async def list_modelarts_jobs(parts: Parts, call: Call[TrainingJobSearch]) -> TrainingJobsResponse:
    """Lists the jobs of a project, newest first.

    The newest 5000 jobs are searched.
    """
    return await search_modelarts_jobs(parts, call.input, project=call.path["project"], caller=call.caller)


@operations.add("ModelArts.ListTrainingJobEvents", "GET", f"{JOB}/events", Permission.SELF)
async def list_modelarts_events(parts: Parts, call: Call[TrainingEventsQuery]) -> TrainingEventsResponse:
    """Lists the events of a job."""
    job = await find_modelarts_job(parts, call)
    shown = parts.state(ModelArtsSettings).folders.shown
    return events_answer(await parts.jobs.history(job.id, caller=call.caller), call.input, shown=shown)


@operations.add("ModelArts.ListTrainingJobStages", "GET", f"{JOB}/stages", Permission.SELF)
async def list_stages(parts: Parts, call: Call[None]) -> TrainingStagesResponse:
    """Lists the stages of a job's attempts."""
    return stages_answer(await find_modelarts_job(parts, call))


@operations.add("ModelArts.ShowTrainingJobLogsPreview", "GET", f"{JOB}/tasks/{{task}}/logs/preview", Permission.SELF)
async def show_log_preview(parts: Parts, call: Call[None]) -> TrainingLogPreview | None:
    """Returns the end of a task's log.

    At most 1 MiB. Until the task has run the status is 204.
    """
    job_id = node_id_of(await find_modelarts_job(parts, call), call.path["task"])
    if job_id is None:
        raise ModelArtsRefusal(INVALID_PARAMETER, "task_id", solution="Use one of status.tasks of the job.")
    query = JobLogQuery(job_id=job_id, tail=PREVIEW_LINES, limit=PREVIEW_LINES, wait=0)
    page = await parts.job_log.page(query, caller=call.caller)
    if page.next is None:
        return None
    content = "".join(f"{line.message}\n" for line in page.lines)
    size = len(content.encode())
    is_whole = not page.lines or page.lines[0].position == 0
    full_size = size if is_whole else max(size, page.next.position)
    return TrainingLogPreview(content=content, current_size=size, full_size=full_size)


@operations.add("ModelArts.ShowTrainingJobFlavors", "GET", f"{PROJECT}/training-job-flavors", Permission.SELF)
async def show_flavors(parts: Parts, call: Call[FlavorsQuery]) -> TrainingFlavorsResponse:
    """Lists sizes of nodes.

    Any `batchq.cpu.<vCPUs>u<GiB>g` that fits the machine can be used.
    """
    return training_flavors(call.input.flavor_type, parts.capacity())


@operations.add("ModelArts.ShowTrainingJobEngines", "GET", f"{PROJECT}/training-job-engines", Permission.SELF)
async def show_engines(parts: Parts, call: Call[None]) -> TrainingEnginesResponse:  # noqa: ARG001
    """Lists the images that the server's settings name as engines."""
    items = tuple(
        TrainingEngine(
            engine_id=image.id,
            engine_name=image.name,
            engine_version=image.version,
            image_info=TrainingEngineImage(cpu_image_url=image.image),
        )
        for image in parts.state(ModelArtsSettings).engines
    )
    return TrainingEnginesResponse(total=len(items), items=items)


async def _is_taken(parts: Parts, call: Call[CreateTrainingJob], name: str) -> bool:
    """Whether an unfinished job of the project that the caller sees has the name."""
    selection = JobSelection(
        definitions=frozenset({f"{definition_prefix(call.path['project'])}_*"}),
        names=frozenset({name}),
        statuses=UNFINISHED,
    )
    page = await parts.search.search(PageQuery(selection=selection, limit=20), caller=call.caller)
    return any(job.spec.name == name for job in page.jobs)
