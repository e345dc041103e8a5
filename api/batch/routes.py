"""Which request is which operation of AWS Batch."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from api.batch.desk import Call, Desk, call, call_about
from api.batch.errors import client_exception
from api.batch.handlers import consumables, definitions, environments, jobs, policies, queues, tags
from api.batch.translate import unserved
from api.http import REQUEST_ID, Dialect, Refused, reply
from api.openapi import Told, tell
from api.operations import Answer, Operation
from api.rights import asker, denied
from batchq.domain.people import Right
from batchq.errors import Forbidden, Invalid

Serve = Operation[Desk, Call]
Endpoint = Callable[[web.Request], Awaitable[web.Response]]

# AWS: POST /v1/ and the name in lower case.
JOBS: Mapping[str, Serve] = {
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
RESOURCES: Mapping[str, Serve] = {
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
TAGS: Mapping[str, tuple[str, Serve]] = {
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


READING = ("Describe", "List", "Get")


def right_of(name: str) -> Right:
    """Everybody may look at what jobs run on; who may change it is an operator."""
    return Right.GROUND if name in RESOURCES and not name.startswith(READING) else Right.OWN


def dialect(desk: Desk) -> Dialect:
    def mount(app: web.Application) -> None:
        def add(name: str, operation: Serve, *, method: str = "POST", path: str = "", bare: bool) -> None:
            route = app.router.add_route(method, path or _path(name), _endpoint(desk, name, operation, bare=bare))
            told = Told(name=name, body=operation.body, query=operation.query, refused=operation.refused)
            tell(app, route, told)

        for name, operation in JOBS.items():
            add(name, operation, bare=False)
        for name, operation in RESOURCES.items():
            add(name, operation, bare=True)
        for name, why in UNSUPPORTED.items():
            add(name, _unsupported(name, why), bare=True)
        for name, (method, operation) in TAGS.items():
            add(name, operation, method=method, path="/v1/tags/{arn:.+}", bare=True)

    return mount


def _path(name: str) -> str:
    return f"/v1/{name.lower()}"


def _endpoint(desk: Desk, name: str, operation: Serve, *, bare: bool) -> Endpoint:
    right, heard = right_of(name), call_about if name in TAGS else call

    async def endpoint(request: web.Request) -> web.Response:
        try:
            caller = asker(request, right, name)
            return reply(await operation(desk, await heard(request, desk, caller)))
        except Refused:
            raise
        except Forbidden as why:
            raise denied(why) from None
        except Invalid as why:
            return client_exception(why, request_id=request[REQUEST_ID], bare=bare)

    return endpoint


def _unsupported(name: str, why: str) -> Serve:
    refusal = unserved.refusal(name, why)

    async def refuse(_desk: Desk, _call: Call) -> Answer:
        raise refusal

    return Operation(refuse, refused=str(refusal))
