"""Which request is which operation of AWS Batch."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from api.batch.desk import Answer, Call, Desk, call
from api.batch.errors import client_exception
from api.batch.handlers import definitions, environments, jobs, queues, tags
from api.http import REQUEST_ID, Dialect, Refused, reply
from batchq.errors import Invalid, NotSupported

Handle = Callable[[Desk, Call], Awaitable[Answer]]
Endpoint = Callable[[web.Request], Awaitable[web.Response]]

# AWS: POST /v1/ and the name in lower case.
JOBS: Mapping[str, Handle] = {
    "SubmitJob": jobs.submit,
    "DescribeJobs": jobs.describe,
    "ListJobs": jobs.list_,
    "CancelJob": jobs.cancel,
    "CancelJobs": jobs.cancel_many,
    "TerminateJob": jobs.terminate,
    "TerminateJobs": jobs.terminate_many,
    "RegisterJobDefinition": definitions.register,
    "DeregisterJobDefinition": definitions.deregister,
    "DescribeJobDefinitions": definitions.describe,
}
RESOURCES: Mapping[str, Handle] = {
    "CreateComputeEnvironment": environments.create,
    "UpdateComputeEnvironment": environments.update,
    "DeleteComputeEnvironment": environments.delete,
    "DescribeComputeEnvironments": environments.describe,
    "CreateJobQueue": queues.create,
    "UpdateJobQueue": queues.update,
    "DeleteJobQueue": queues.delete,
    "DescribeJobQueues": queues.describe,
}
# AWS: the ARN is in the path, and the method says which.
TAGS: Mapping[str, tuple[str, Handle]] = {
    "TagResource": ("POST", tags.tag),
    "UntagResource": ("DELETE", tags.untag),
    "ListTagsForResource": ("GET", tags.list_),
}
UNSUPPORTED = (
    "CreateConsumableResource",
    "CreateQuotaShare",
    "CreateSchedulingPolicy",
    "CreateServiceEnvironment",
    "DeleteConsumableResource",
    "DeleteQuotaShare",
    "DeleteSchedulingPolicy",
    "DeleteServiceEnvironment",
    "DescribeConsumableResource",
    "DescribeQuotaShare",
    "DescribeSchedulingPolicies",
    "DescribeServiceEnvironments",
    "DescribeServiceJob",
    "GetJobQueueSnapshot",
    "ListConsumableResources",
    "ListJobsByConsumableResource",
    "ListQuotaShares",
    "ListSchedulingPolicies",
    "ListServiceJobs",
    "SubmitServiceJob",
    "TerminateServiceJob",
    "TerminateServiceJobs",
    "UpdateConsumableResource",
    "UpdateQuotaShare",
    "UpdateSchedulingPolicy",
    "UpdateServiceEnvironment",
    "UpdateServiceJob",
)


def dialect(desk: Desk) -> Dialect:
    def mount(app: web.Application) -> None:
        for name, handle in JOBS.items():
            app.router.add_post(_path(name), _endpoint(desk, handle, bare=False))
        for name, handle in RESOURCES.items():
            app.router.add_post(_path(name), _endpoint(desk, handle, bare=True))
        for method, handle in TAGS.values():
            app.router.add_route(method, "/v1/tags/{arn:.+}", _endpoint(desk, handle, bare=True))
        for name in UNSUPPORTED:
            app.router.add_post(_path(name), _endpoint(desk, _unsupported(name), bare=True))

    return mount


def _path(name: str) -> str:
    return f"/v1/{name.lower()}"


def _endpoint(desk: Desk, handle: Handle, *, bare: bool) -> Endpoint:
    async def endpoint(request: web.Request) -> web.Response:
        try:
            return reply(await handle(desk, await call(request, desk)))
        except Refused:
            raise
        except Invalid as why:
            return client_exception(why, request_id=request[REQUEST_ID], bare=bare)

    return endpoint


def _unsupported(name: str) -> Handle:
    async def refuse(_desk: Desk, _call: Call) -> Answer:
        raise NotSupported(f"{name} is not supported by this server.")

    return refuse
