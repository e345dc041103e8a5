"""The operations of AWS Batch: their routes and permissions, and calls of them inside the server."""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from batchq.api.auth.authentication import access_denied, authorize
from batchq.api.batch import (
    compute_environments,
    consumable_resources,
    describe_jobs,
    job_definitions,
    job_queues,
    list_jobs,
    scheduling_policies,
    stop_jobs,
    submit_job,
    tags,
    validation,
)
from batchq.api.batch.arns import BatchArns
from batchq.api.batch.context import BatchRequest, read_request, read_tag_request, submission_key
from batchq.api.batch.job_definitions import RegisterJobDefinition
from batchq.api.batch.submit_job import SubmitJob
from batchq.api.http.http import REQUEST_ID, Dialect, HttpRefusal, parse, reply
from batchq.api.operations.openapi import OperationDoc, document, document_additions
from batchq.api.operations.operations import Answer, Operation
from batchq.api.operations.parts import Parts
from batchq.api.operations.schemas import Additions, AwsResponse
from batchq.api.stop_shapes import StopOrderResponse
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.access.container_policy import require_allowed_containers
from batchq.errors import Forbidden, Invalid

BatchOperation = Operation[BatchRequest]
Endpoint = Callable[[web.Request], Awaitable[web.Response]]

# AWS: POST /v1/ and the name in lower case.
JOBS: Mapping[str, BatchOperation] = {
    "SubmitJob": submit_job.submit_job,
    "DescribeJobs": describe_jobs.describe_jobs,
    "ListJobs": list_jobs.list_jobs,
    "CancelJob": stop_jobs.cancel_job,
    "CancelJobs": stop_jobs.cancel_many,
    "TerminateJob": stop_jobs.terminate_job,
    "TerminateJobs": stop_jobs.terminate_many,
    "RegisterJobDefinition": job_definitions.register_job_definition,
    "DeregisterJobDefinition": job_definitions.deregister_job_definition,
    "DescribeJobDefinitions": job_definitions.describe_job_definitions,
}
RESOURCES: Mapping[str, BatchOperation] = {
    "CreateComputeEnvironment": compute_environments.create_compute_environment,
    "UpdateComputeEnvironment": compute_environments.update_compute_environment,
    "DeleteComputeEnvironment": compute_environments.delete_compute_environment,
    "DescribeComputeEnvironments": compute_environments.describe_compute_environments,
    "CreateJobQueue": job_queues.create_job_queue,
    "UpdateJobQueue": job_queues.update_job_queue,
    "DeleteJobQueue": job_queues.delete_job_queue,
    "DescribeJobQueues": job_queues.describe_job_queues,
    "GetJobQueueSnapshot": job_queues.get_job_queue_snapshot,
    "CreateSchedulingPolicy": scheduling_policies.create_scheduling_policy,
    "UpdateSchedulingPolicy": scheduling_policies.update_scheduling_policy,
    "DeleteSchedulingPolicy": scheduling_policies.delete_scheduling_policy,
    "DescribeSchedulingPolicies": scheduling_policies.describe_scheduling_policies,
    "ListSchedulingPolicies": scheduling_policies.list_scheduling_policies,
    "CreateConsumableResource": consumable_resources.create_consumable_resource,
    "UpdateConsumableResource": consumable_resources.update_consumable_resource,
    "DeleteConsumableResource": consumable_resources.delete_consumable_resource,
    "DescribeConsumableResource": consumable_resources.describe_consumable_resource,
    "ListConsumableResources": consumable_resources.list_consumable_resources,
    "ListJobsByConsumableResource": consumable_resources.list_jobs_by_consumable_resource,
}

# AWS: the ARN is in the path, and the method selects the operation.
TAGS: Mapping[str, tuple[str, BatchOperation]] = {
    "TagResource": ("POST", tags.tag_resource),
    "UntagResource": ("DELETE", tags.untag),
    "ListTagsForResource": ("GET", tags.list_),
}

# AWS: operations for SageMaker Training.
UNSUPPORTED: Mapping[str, str] = {
    "CreateQuotaShare": validation.QUOTA_SHARES,
    "DeleteQuotaShare": validation.QUOTA_SHARES,
    "DescribeQuotaShare": validation.QUOTA_SHARES,
    "ListQuotaShares": validation.QUOTA_SHARES,
    "UpdateQuotaShare": validation.QUOTA_SHARES,
    "CreateServiceEnvironment": validation.SERVICE_ENVIRONMENTS,
    "DeleteServiceEnvironment": validation.SERVICE_ENVIRONMENTS,
    "DescribeServiceEnvironments": validation.SERVICE_ENVIRONMENTS,
    "UpdateServiceEnvironment": validation.SERVICE_ENVIRONMENTS,
    "DescribeServiceJob": validation.SERVICE_JOBS,
    "ListServiceJobs": validation.SERVICE_JOBS,
    "SubmitServiceJob": validation.SERVICE_JOBS,
    "TerminateServiceJob": validation.SERVICE_JOBS,
    "TerminateServiceJobs": validation.SERVICE_JOBS,
    "UpdateServiceJob": validation.SERVICE_JOBS,
}
READ_PREFIXES = ("Describe", "List", "Get")


class AuthorResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A user, and the account of that user at the time."""

    user: str
    account: str


class DefinitionAdditions(AuthorResponse, frozen=True, kw_only=True, rename="camel"):
    """The member `batchq` of a job definition, which AWS does not have: the user who owns its name."""

    #: The user who registered this revision. Jobs of the revision have only rights that this user has too.
    author: AuthorResponse


class JobAdditions(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The member `batchq` of a job in the answer to ListJobs, which AWS does not have."""

    #: The user who submitted the job; empty if requests were not authenticated.
    user: str
    #: The account of that user at the time.
    account: str
    #: The other users who wrote what the job runs; absent without any. The job has only rights that they have too.
    authors: tuple[AuthorResponse, ...] = ()


class JobDetailAdditions(JobAdditions, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The member `batchq` of a job in the answer to DescribeJobs, which AWS does not have."""

    #: The latest order to cancel or stop the job; absent without one.
    stop_order: StopOrderResponse | None = None
    #: All such orders that had an effect, oldest first; absent without one.
    stop_orders: tuple[StopOrderResponse, ...] = ()


class SubmissionAdditions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The member `batchq` of the answer to SubmitJob, which AWS does not have; absent without a warning."""

    #: Why no compute environment of the queue could hold the job.
    warning: str


ADDITIONS: Additions = {
    ("batch", "JobDefinition"): DefinitionAdditions,
    ("batch", "JobDetail"): JobDetailAdditions,
    ("batch", "JobSummary"): JobAdditions,
    ("batch", "SubmitJobResponse"): SubmissionAdditions,
}


def required_permission(name: str) -> Permission:
    """The permission an operation requires: operators change queues and other resources, all users describe them."""
    return Permission.CATALOG if name in RESOURCES and not name.startswith(READ_PREFIXES) else Permission.SELF


def dialect(context: Parts) -> Dialect:
    def mount(app: web.Application) -> None:
        def add(name: str, operation: BatchOperation, *, method: str = "POST", path: str = "", bare: bool) -> None:
            route = app.router.add_route(method, path or _path(name), _endpoint(context, name, operation, bare=bare))
            document(app, route, _doc(name, operation))

        document_additions(app, ADDITIONS)
        for name, operation in JOBS.items():
            add(name, operation, bare=False)
        for name, operation in RESOURCES.items():
            add(name, operation, bare=True)
        for name, why in UNSUPPORTED.items():
            add(name, _unsupported(name, why), bare=True)
        for name, (method, operation) in TAGS.items():
            add(name, operation, method=method, path="/v1/tags/{arn:.+}", bare=True)

    return mount


def _doc(name: str, operation: BatchOperation) -> OperationDoc:
    return OperationDoc(
        name=name,
        summary=operation.summary,
        body=operation.body,
        query=operation.query,
        answer=None if operation.refused else AwsResponse("batch", name),
        permission=required_permission(name),
        refused=operation.refused,
    )


def _path(name: str) -> str:
    return f"/v1/{name.lower()}"


def _endpoint(context: Parts, name: str, operation: BatchOperation, *, bare: bool) -> Endpoint:
    permission, read = required_permission(name), read_tag_request if name in TAGS else read_request

    async def endpoint(request: web.Request) -> web.Response:
        try:
            caller = authorize(request, permission, name)
            return reply(await operation(context, await read(request, context, caller)))
        except HttpRefusal:
            raise
        except Forbidden as why:
            raise access_denied(why) from None
        except Invalid as why:
            return _client_exception(why, request_id=request[REQUEST_ID], bare=bare)

    return endpoint


def _unsupported(name: str, why: str) -> BatchOperation:
    refusal = validation.unsupported_error(name, why)

    async def refuse(_context: Parts, _request: BatchRequest) -> Answer:
        raise refusal

    return Operation(refuse, refused=str(refusal))


def _client_exception(error: Invalid, *, request_id: str, bare: bool) -> web.Response:
    """AWS: most messages are wrapped in another text; those about queues and compute environments are not (`bare`)."""
    text = str(error)
    wrapped = text if bare else f"Error executing request, Exception : {text}, RequestId: {request_id}"
    response = reply({"message": wrapped}, status=HTTPStatus.BAD_REQUEST)
    response.headers["x-amzn-ErrorType"] = "ClientException"
    return response


class InProcessCalls:
    """Calls operations on jobs and job definitions on behalf of a caller. They need no permission but SELF."""

    def __init__(self, context: Parts) -> None:
        self._context = context

    async def call(
        self, operation: str, content: Mapping[str, object], *, caller: Caller, invocation: str = ""
    ) -> Mapping[str, Any]:
        """The JSON of the answer. `invocation`: as `amz-sdk-invocation-id`. Raises the errors of the operation."""
        request = self._request(content, operation, caller, invocation)
        body = reply(await JOBS[operation](self._context, request)).body
        assert isinstance(body, bytes), "a reply has a body"
        answer: Mapping[str, Any] = json.loads(body)
        return answer

    async def check_submission(
        self, content: Mapping[str, object], *, definition: Mapping[str, object] | None, caller: Caller
    ) -> str | None:
        """Raise the errors of SubmitJob, without a change. Returns its warning; None: there is none.

        Dependencies, budgets, and the limits of accounts and queues are checked by a submission alone.
        `definition`: the RegisterJobDefinition request for a definition that is not registered; None: it is.
        """
        request, context = self._request(content, "SubmitJob", caller, ""), self._context
        submit_job.check_submission_size(request.body)
        body = parse(SubmitJob, request.body)
        if definition is None:
            found = await submit_job.find_requested(context, body.jobDefinition, request)
        else:
            shape = parse(RegisterJobDefinition, json.dumps(definition).encode())
            found = job_definitions.to_definition(
                shape, arns=request.arns, limits=context.limits, now=context.clock.now()
            )
            require_allowed_containers(found, caller)
            found = replace(found, owner=caller.owner)
        submission = submit_job.batch_submission(body, found, arns=request.arns, limits=context.limits, key=None)
        return await submit_job.check_submission(context, submission, found, caller=caller)

    def _request(self, content: Mapping[str, object], operation: str, caller: Caller, invocation: str) -> BatchRequest:
        body = json.dumps(content).encode()
        return BatchRequest(
            body=body,
            caller=replace(caller, operation=operation),
            arns=BatchArns(account=self._context.account, region=self._context.region),
            key=submission_key(invocation, f"console {caller.user}", body),
            arn="",
            keys=(),
        )
