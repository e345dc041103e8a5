"""Routes of the ModelArts dialect: `/v2/{project}/training-jobs` and what belongs to it."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.authorization import authorize
from batchq.api.dialect_profiles import register
from batchq.api.http import Dialect, read_body, reply
from batchq.api.modelarts import handlers
from batchq.api.modelarts.codes import OTHER_PROJECT, refusal
from batchq.api.modelarts.context import ModelArtsContext
from batchq.api.modelarts.errors import PROFILE
from batchq.api.modelarts.events import TrainingEventsAnswer, TrainingStagesAnswer
from batchq.api.modelarts.flavors import TrainingFlavorsAnswer
from batchq.api.modelarts.handlers import EmptyAnswer, ModelArtsRequest, TrainingEnginesAnswer, TrainingLogPreview
from batchq.api.modelarts.job_document import TrainingJobAnswer
from batchq.api.modelarts.search import MAX_SEARCHED, TrainingJobsAnswer
from batchq.api.modelarts.wire import (
    CreateTrainingJob,
    EventsQuery,
    FlavorsQuery,
    TrainingJobAction,
    TrainingJobSearch,
    TrainingJobUpdate,
)
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission, UserName
from batchq.throttling import ConcurrencyLimit

PROJECT_HEADER = "X-Project-Id"
MAX_SEARCHES, MAX_WAITING = 2, 14  # searches of one user that are carried out, and that wait

_PROJECT = "/v2/{project:(?!training/)[A-Za-z0-9-]{1,64}}"
_JOBS = f"{_PROJECT}/training-jobs"
_JOB = f"{_JOBS}/{{job}}"

Handler = Callable[[ModelArtsContext, ModelArtsRequest], Awaitable[Struct | None]]


class _Route(Struct, frozen=True, kw_only=True):
    """One operation."""

    method: str
    path: str
    handle: Handler
    doc: OperationDoc


_CREATE = _Route(
    method="POST",
    path=_JOBS,
    handle=handlers.create,
    doc=OperationDoc(
        name="ModelArts.CreateTrainingJob",
        summary="Creates a training job.",
        body=CreateTrainingJob,
        answer=TrainingJobAnswer,
        status=HTTPStatus.CREATED,
    ),
)
_SHOW = _Route(
    method="GET",
    path=_JOB,
    handle=handlers.show,
    doc=OperationDoc(
        name="ModelArts.ShowTrainingJobDetails",
        summary="Describes a job, of this or another dialect.",
        answer=TrainingJobAnswer,
    ),
)
_STOP = _Route(
    method="POST",
    path=f"{_JOB}/actions",
    handle=handlers.act,
    doc=OperationDoc(
        name="ModelArts.StopTrainingJob",
        summary="Terminates a job that is Creating, Pending or Running.",
        description="The only `action_type` is `terminate`. A job without a container is Terminated at once.",
        body=TrainingJobAction,
        answer=TrainingJobAnswer,
        status=HTTPStatus.ACCEPTED,
    ),
)
_DELETE = _Route(
    method="DELETE",
    path=_JOB,
    handle=handlers.delete,
    doc=OperationDoc(
        name="ModelArts.DeleteTrainingJob",
        summary="Hides a finished job from this dialect.",
        description="The record and its logs are removed after the server's retention period.",
        answer=EmptyAnswer,
        status=HTTPStatus.ACCEPTED,
    ),
)
_UPDATE = _Route(
    method="PUT",
    path=_JOB,
    handle=handlers.update,
    doc=OperationDoc(
        name="ModelArts.ChangeTrainingJobDescription",
        summary="Changes the description of a job.",
        body=TrainingJobUpdate,
        answer=EmptyAnswer,
    ),
)
_SEARCH = _Route(
    method="POST",
    path=f"{_PROJECT}/training-job-searches",
    handle=handlers.search,
    doc=OperationDoc(
        name="ModelArts.ListTrainingJobs",
        summary="Lists the jobs of a project, newest first.",
        description=f"The newest {MAX_SEARCHED} jobs are searched.",
        body=TrainingJobSearch,
        answer=TrainingJobsAnswer,
    ),
)
_EVENTS = _Route(
    method="GET",
    path=f"{_JOB}/events",
    handle=handlers.events,
    doc=OperationDoc(
        name="ModelArts.ListTrainingJobEvents",
        summary="Lists the events of a job.",
        query=EventsQuery,
        answer=TrainingEventsAnswer,
    ),
)
_STAGES = _Route(
    method="GET",
    path=f"{_JOB}/stages",
    handle=handlers.stages,
    doc=OperationDoc(
        name="ModelArts.ListTrainingJobStages",
        summary="Lists the stages of a job's attempts.",
        answer=TrainingStagesAnswer,
    ),
)
_LOG = _Route(
    method="GET",
    path=f"{_JOB}/tasks/{{task}}/logs/preview",
    handle=handlers.log_preview,
    doc=OperationDoc(
        name="ModelArts.ShowTrainingJobLogsPreview",
        summary="Returns the end of a task's log.",
        description="At most 1 MiB. Until the task has run the status is 204.",
        answer=TrainingLogPreview,
        empty_statuses=(HTTPStatus.NO_CONTENT,),
    ),
)
_FLAVORS = _Route(
    method="GET",
    path=f"{_PROJECT}/training-job-flavors",
    handle=handlers.flavors,
    doc=OperationDoc(
        name="ModelArts.ShowTrainingJobFlavors",
        summary="Lists sizes of nodes.",
        description="Any `batchq.cpu.<vCPUs>u<GiB>g` that fits the machine can be used.",
        query=FlavorsQuery,
        answer=TrainingFlavorsAnswer,
    ),
)
_ENGINES = _Route(
    method="GET",
    path=f"{_PROJECT}/training-job-engines",
    handle=handlers.engines,
    doc=OperationDoc(
        name="ModelArts.ShowTrainingJobEngines",
        summary="Lists the images that the server's settings name as engines.",
        answer=TrainingEnginesAnswer,
    ),
)
ROUTES = (_CREATE, _SHOW, _STOP, _DELETE, _UPDATE, _SEARCH, _EVENTS, _STAGES, _LOG, _FLAVORS, _ENGINES)


def dialect(context: ModelArtsContext) -> Dialect:
    searches = ConcurrencyLimit[UserName](at_once=MAX_SEARCHES, waiting=MAX_WAITING)

    def mount(app: web.Application) -> None:
        register(app, PROFILE)
        for it in ROUTES:
            document(app, app.router.add_route(it.method, it.path, _endpoint(context, it, searches)), it.doc)

    return mount


def _endpoint(
    context: ModelArtsContext, route: _Route, searches: ConcurrencyLimit[UserName]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def endpoint(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.SELF, route.doc.name)
        sent = ModelArtsRequest(
            caller=caller,
            project=request.match_info["project"],
            job=request.match_info.get("job", ""),
            task=request.match_info.get("task", ""),
            query=dict(request.query),
            body=await read_body(request),
        )
        if request.headers.get(PROJECT_HEADER, sent.project) != sent.project:
            raise refusal(OTHER_PROJECT)
        if route is _SEARCH:
            async with searches.of(caller.user):
                return _response(route, await route.handle(context, sent))
        return _response(route, await route.handle(context, sent))

    return endpoint


def _response(route: _Route, answer: Struct | None) -> web.Response:
    """None: the log that was requested is not ready."""
    if answer is None:
        return web.Response(status=HTTPStatus.NO_CONTENT)
    return reply(answer, status=route.doc.status)
