"""Which request is which operation of AWS Batch."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from api.batch.desk import Answer, Call, Desk, call
from api.batch.errors import client_exception
from api.batch.handlers import consumables, definitions, environments, jobs, policies, queues, tags
from api.batch.translate import unserved
from api.http import REQUEST_ID, Dialect, Refused, reply
from batchq.errors import Invalid

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
    "GetJobQueueSnapshot": queues.snapshot,
    "CreateSchedulingPolicy": policies.create,
    "UpdateSchedulingPolicy": policies.update,
    "DeleteSchedulingPolicy": policies.delete,
    "DescribeSchedulingPolicies": policies.describe,
    "ListSchedulingPolicies": policies.list_,
    "CreateConsumableResource": consumables.create,
    "UpdateConsumableResource": consumables.update,
    "DeleteConsumableResource": consumables.delete,
    "DescribeConsumableResource": consumables.describe,
    "ListConsumableResources": consumables.list_,
    "ListJobsByConsumableResource": consumables.list_jobs,
}
# AWS: the ARN is in the path, and the method says which.
TAGS: Mapping[str, tuple[str, Handle]] = {
    "TagResource": ("POST", tags.tag),
    "UntagResource": ("DELETE", tags.untag),
    "ListTagsForResource": ("GET", tags.list_),
}
# AWS: what Batch does with SageMaker Training.
UNSUPPORTED: Mapping[str, str] = {
    "CreateQuotaShare": unserved.QUOTA_SHARES,
    "DeleteQuotaShare": unserved.QUOTA_SHARES,
    "DescribeQuotaShare": unserved.QUOTA_SHARES,
    "ListQuotaShares": unserved.QUOTA_SHARES,
    "UpdateQuotaShare": unserved.QUOTA_SHARES,
    "CreateServiceEnvironment": unserved.SERVICE_ENVIRONMENTS,
    "DeleteServiceEnvironment": unserved.SERVICE_ENVIRONMENTS,
    "DescribeServiceEnvironments": unserved.SERVICE_ENVIRONMENTS,
    "UpdateServiceEnvironment": unserved.SERVICE_ENVIRONMENTS,
    "DescribeServiceJob": unserved.SERVICE_JOBS,
    "ListServiceJobs": unserved.SERVICE_JOBS,
    "SubmitServiceJob": unserved.SERVICE_JOBS,
    "TerminateServiceJob": unserved.SERVICE_JOBS,
    "TerminateServiceJobs": unserved.SERVICE_JOBS,
    "UpdateServiceJob": unserved.SERVICE_JOBS,
}


def dialect(desk: Desk) -> Dialect:
    def mount(app: web.Application) -> None:
        for name, handle in JOBS.items():
            app.router.add_post(_path(name), _endpoint(desk, handle, bare=False))
        for name, handle in RESOURCES.items():
            app.router.add_post(_path(name), _endpoint(desk, handle, bare=True))
        for method, handle in TAGS.values():
            app.router.add_route(method, "/v1/tags/{arn:.+}", _endpoint(desk, handle, bare=True))
        for name, why in UNSUPPORTED.items():
            app.router.add_post(_path(name), _endpoint(desk, _unsupported(name, why), bare=True))

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


def _unsupported(name: str, why: str) -> Handle:
    async def refuse(_desk: Desk, _call: Call) -> Answer:
        raise unserved.refusal(name, why)

    return refuse
