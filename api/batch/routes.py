"""Routes of AWS Batch: the method and path of each operation, and the permission it requires."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from batchq.api.authorization import access_denied, authorize
from batchq.api.batch.context import BatchContext, BatchRequest, call, call_about
from batchq.api.batch.handlers import (
    compute_environments,
    consumable_resources,
    job_definitions,
    job_queues,
    jobs,
    scheduling_policies,
    tags,
)
from batchq.api.batch.translate import unsupported
from batchq.api.http import REQUEST_ID, Dialect, HttpRefusal, reply
from batchq.api.openapi import OperationDoc, document
from batchq.api.operations import Answer, Operation
from batchq.domain.access.accounts import Permission
from batchq.errors import Forbidden, Invalid

Serve = Operation[BatchContext, BatchRequest]
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
    "RegisterJobDefinition": job_definitions.register,
    "DeregisterJobDefinition": job_definitions.deregister,
    "DescribeJobDefinitions": job_definitions.describe,
}
RESOURCES: Mapping[str, Serve] = {
    "CreateComputeEnvironment": compute_environments.create,
    "UpdateComputeEnvironment": compute_environments.update,
    "DeleteComputeEnvironment": compute_environments.delete,
    "DescribeComputeEnvironments": compute_environments.describe,
    "CreateJobQueue": job_queues.create,
    "UpdateJobQueue": job_queues.update,
    "DeleteJobQueue": job_queues.delete,
    "DescribeJobQueues": job_queues.describe,
    "GetJobQueueSnapshot": job_queues.snapshot,
    "CreateSchedulingPolicy": scheduling_policies.create,
    "UpdateSchedulingPolicy": scheduling_policies.update,
    "DeleteSchedulingPolicy": scheduling_policies.delete,
    "DescribeSchedulingPolicies": scheduling_policies.describe,
    "ListSchedulingPolicies": scheduling_policies.list_,
    "CreateConsumableResource": consumable_resources.create,
    "UpdateConsumableResource": consumable_resources.update,
    "DeleteConsumableResource": consumable_resources.delete,
    "DescribeConsumableResource": consumable_resources.describe,
    "ListConsumableResources": consumable_resources.list_,
    "ListJobsByConsumableResource": consumable_resources.list_jobs,
}

# AWS: the ARN is in the path, and the method selects the operation.
TAGS: Mapping[str, tuple[str, Serve]] = {
    "TagResource": ("POST", tags.tag),
    "UntagResource": ("DELETE", tags.untag),
    "ListTagsForResource": ("GET", tags.list_),
}

# AWS: operations for SageMaker Training.
UNSUPPORTED: Mapping[str, str] = {
    "CreateQuotaShare": unsupported.QUOTA_SHARES,
    "DeleteQuotaShare": unsupported.QUOTA_SHARES,
    "DescribeQuotaShare": unsupported.QUOTA_SHARES,
    "ListQuotaShares": unsupported.QUOTA_SHARES,
    "UpdateQuotaShare": unsupported.QUOTA_SHARES,
    "CreateServiceEnvironment": unsupported.SERVICE_ENVIRONMENTS,
    "DeleteServiceEnvironment": unsupported.SERVICE_ENVIRONMENTS,
    "DescribeServiceEnvironments": unsupported.SERVICE_ENVIRONMENTS,
    "UpdateServiceEnvironment": unsupported.SERVICE_ENVIRONMENTS,
    "DescribeServiceJob": unsupported.SERVICE_JOBS,
    "ListServiceJobs": unsupported.SERVICE_JOBS,
    "SubmitServiceJob": unsupported.SERVICE_JOBS,
    "TerminateServiceJob": unsupported.SERVICE_JOBS,
    "TerminateServiceJobs": unsupported.SERVICE_JOBS,
    "UpdateServiceJob": unsupported.SERVICE_JOBS,
}
READING = ("Describe", "List", "Get")


def right_of(name: str) -> Permission:
    """The permission an operation requires: operators change queues and other resources, all users describe them."""
    return Permission.GROUND if name in RESOURCES and not name.startswith(READING) else Permission.OWN


def dialect(desk: BatchContext) -> Dialect:
    def mount(app: web.Application) -> None:
        def add(name: str, operation: Serve, *, method: str = "POST", path: str = "", bare: bool) -> None:
            route = app.router.add_route(method, path or _path(name), _endpoint(desk, name, operation, bare=bare))
            told = OperationDoc(name=name, body=operation.body, query=operation.query, refused=operation.refused)
            document(app, route, told)

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


def _endpoint(desk: BatchContext, name: str, operation: Serve, *, bare: bool) -> Endpoint:
    right, heard = right_of(name), call_about if name in TAGS else call

    async def endpoint(request: web.Request) -> web.Response:
        try:
            caller = authorize(request, right, name)
            return reply(await operation(desk, await heard(request, desk, caller)))
        except HttpRefusal:
            raise
        except Forbidden as why:
            raise access_denied(why) from None
        except Invalid as why:
            return _client_exception(why, request_id=request[REQUEST_ID], bare=bare)

    return endpoint


def _unsupported(name: str, why: str) -> Serve:
    refusal = unsupported.refusal(name, why)

    async def refuse(_desk: BatchContext, _call: BatchRequest) -> Answer:
        raise refusal

    return Operation(refuse, refused=str(refusal))


def _client_exception(error: Invalid, *, request_id: str, bare: bool) -> web.Response:
    """AWS: most messages are wrapped in another text; those about queues and compute environments are not (`bare`)."""
    text = str(error)
    wrapped = text if bare else f"Error executing request, Exception : {text}, RequestId: {request_id}"
    response = reply({"message": wrapped}, status=HTTPStatus.BAD_REQUEST)
    response.headers["x-amzn-ErrorType"] = "ClientException"
    return response
