"""The operations of AWS Batch: the table of their permissions and handlers, and calls of them inside the server."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web
from msgspec.structs import replace
from pydantic import BaseModel

from batchq.api.auth.authentication import access_denied, parse_credential
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
from batchq.api.batch.additions import ADDITIONS
from batchq.api.batch.arns import BatchArns
from batchq.api.batch.context import STRICT, Answer, BatchRequest, principal_of
from batchq.api.batch.job_definitions import RegisterJobDefinition
from batchq.api.batch.submit_job import SubmitJob
from batchq.api.http.http import BODY, REQUEST_ID, parse, read_body, reply
from batchq.api.operations.operation_table import OperationTable, dialect_of
from batchq.api.operations.operations import Call, Operation, aws_operation
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.errors import BatchqError, DefinitionNotFound, Forbidden, Invalid

SELF, CATALOG = Permission.SELF, Permission.CATALOG


def batch_operation(
    name: str,
    permission: Permission,
    handle: Callable[..., Awaitable[Answer | None]],
    *,
    check_body: Callable[[bytes], None] | None = None,
) -> Operation:
    """AWS: POST /v1/ and the name in lower case."""
    place = {"method": "POST", "path": f"/v1/{name.lower()}"}
    return aws_operation("batch", name, permission, handle, check_body=check_body, **place)


def _of_tags(
    name: str, method: str, handle: Callable[..., Awaitable[Answer | None]], **members: type[BaseModel]
) -> Operation:
    """AWS: the ARN is in the path, and the method selects the operation.

    The handler requires the permission to change the kind of the resource.
    """
    return aws_operation("batch", name, SELF, handle, method=method, path="/v1/tags/{arn:.+}", **members)


def _refused(name: str, why: str) -> Operation:
    refusal = validation.unsupported_error(name, why)

    async def refuse(_parts: Parts, _request: BatchRequest) -> Answer:
        raise refusal

    return replace(batch_operation(name, SELF, refuse), answer=None, refused=str(refusal))


def _by_name(*operations: Operation) -> Mapping[str, Operation]:
    return {operation.name: operation for operation in operations}


JOBS = _by_name(
    batch_operation("SubmitJob", SELF, submit_job.submit_job, check_body=submit_job.check_submission_size),
    batch_operation("DescribeJobs", SELF, describe_jobs.describe_jobs),
    batch_operation("ListJobs", SELF, list_jobs.list_jobs),
    batch_operation("CancelJob", SELF, stop_jobs.cancel_job),
    batch_operation("CancelJobs", SELF, stop_jobs.cancel_many),
    batch_operation("TerminateJob", SELF, stop_jobs.terminate_job),
    batch_operation("TerminateJobs", SELF, stop_jobs.terminate_many),
    batch_operation(
        "RegisterJobDefinition",
        SELF,
        job_definitions.register_job_definition,
        check_body=job_definitions.check_definition_size,
    ),
    batch_operation("DeregisterJobDefinition", SELF, job_definitions.deregister_job_definition),
    batch_operation("DescribeJobDefinitions", SELF, job_definitions.describe_job_definitions),
)
# Operators change queues and other resources, and all users describe them.
RESOURCES = _by_name(
    batch_operation("CreateComputeEnvironment", CATALOG, compute_environments.create_compute_environment),
    batch_operation("UpdateComputeEnvironment", CATALOG, compute_environments.update_compute_environment),
    batch_operation("DeleteComputeEnvironment", CATALOG, compute_environments.delete_compute_environment),
    batch_operation("DescribeComputeEnvironments", SELF, compute_environments.describe_compute_environments),
    batch_operation("CreateJobQueue", CATALOG, job_queues.create_job_queue),
    batch_operation("UpdateJobQueue", CATALOG, job_queues.update_job_queue),
    batch_operation("DeleteJobQueue", CATALOG, job_queues.delete_job_queue),
    batch_operation("DescribeJobQueues", SELF, job_queues.describe_job_queues),
    batch_operation("GetJobQueueSnapshot", SELF, job_queues.get_job_queue_snapshot),
    batch_operation("CreateSchedulingPolicy", CATALOG, scheduling_policies.create_scheduling_policy),
    batch_operation("UpdateSchedulingPolicy", CATALOG, scheduling_policies.update_scheduling_policy),
    batch_operation("DeleteSchedulingPolicy", CATALOG, scheduling_policies.delete_scheduling_policy),
    batch_operation("DescribeSchedulingPolicies", SELF, scheduling_policies.describe_scheduling_policies),
    batch_operation("ListSchedulingPolicies", SELF, scheduling_policies.list_scheduling_policies),
    batch_operation("CreateConsumableResource", CATALOG, consumable_resources.create_consumable_resource),
    batch_operation("UpdateConsumableResource", CATALOG, consumable_resources.update_consumable_resource),
    batch_operation("DeleteConsumableResource", CATALOG, consumable_resources.delete_consumable_resource),
    batch_operation("DescribeConsumableResource", SELF, consumable_resources.describe_consumable_resource),
    batch_operation("ListConsumableResources", SELF, consumable_resources.list_consumable_resources),
    batch_operation("ListJobsByConsumableResource", SELF, consumable_resources.list_jobs_by_consumable_resource),
)
TAGS = _by_name(
    _of_tags("TagResource", "POST", tags.tag_resource),
    _of_tags("UntagResource", "DELETE", tags.untag_resource, query=tags.UntagResource),
    _of_tags("ListTagsForResource", "GET", tags.list_tags),
)

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


async def _read(request: web.Request, operation: Operation) -> BaseModel | None:
    return operation.parse(await read_body(request))


async def _send(parts: Parts, operation: Operation, call: Call[Any]) -> web.StreamResponse:
    http, arn = call.http, call.path.get("arn", "")
    credential = parse_credential(http.headers.get("Authorization", ""))
    invocation = http.headers.get("amz-sdk-invocation-id")
    request = BatchRequest(
        input=call.input,
        caller=call.caller,
        arns=BatchArns(account=parts.account, region=credential.region or parts.region),
        invocation=invocation,
        principal=principal_of(call.caller, credential) if invocation else "",
        body=http[BODY] if invocation else b"",
        arn=arn,
        keys=tuple(http.query.getall("tagKeys", ())) if arn else (),
        strict=http.headers.get(STRICT, "").lower() == "true",
    )
    return reply(await operation.handle(parts, request))


def _failed(request: web.Request, operation: Operation, error: BatchqError) -> web.StreamResponse:
    match error:
        case Forbidden():
            raise access_denied(error) from None
        case Invalid():
            return _client_exception(error, request_id=request[REQUEST_ID], bare=operation.name not in JOBS)
        case _:
            raise error


def batch_table(operations: Iterable[Operation]) -> OperationTable:
    return OperationTable(operations, read=_read, carry_out=_send, failed=_failed)


operations = batch_table(
    [*JOBS.values(), *RESOURCES.values(), *TAGS.values(), *(_refused(name, why) for name, why in UNSUPPORTED.items())]
)
dialect = dialect_of(operations, additions=ADDITIONS)


def _client_exception(error: Invalid, *, request_id: str, bare: bool) -> web.Response:
    """AWS: most messages are wrapped in another text; those about queues and compute environments are not (`bare`)."""
    text = str(error)
    wrapped = text if bare else f"Error executing request, Exception : {text}, RequestId: {request_id}"
    response = reply({"message": wrapped}, status=HTTPStatus.BAD_REQUEST)
    response.headers["x-amzn-ErrorType"] = "ClientException"
    return response


class InProcessCalls:
    """Calls operations on jobs and job definitions on behalf of a caller. They need no permission but SELF."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def call(
        self, operation: str, content: Mapping[str, object], *, caller: Caller, invocation: str = ""
    ) -> Mapping[str, Any]:
        """The JSON of the answer. `invocation`: as `amz-sdk-invocation-id`. Raises the errors of the operation."""
        request = self._request(content, operation, caller, invocation)
        body = reply(await JOBS[operation].handle(self._parts, request)).body
        assert isinstance(body, bytes), "a reply has a body"
        answer: Mapping[str, Any] = json.loads(body)
        return answer

    async def check_submission(
        self, content: Mapping[str, object], *, definition: Mapping[str, object] | None, caller: Caller
    ) -> str | None:
        """Raise the errors of SubmitJob, without a change. Returns its warning; None: there is none.

        `definition`: the RegisterJobDefinition request for a definition that is not registered; None: it is.
        """
        request, parts = self._request(content, "SubmitJob", caller, ""), self._parts
        body, unregistered = request.input, None
        assert isinstance(body, SubmitJob)
        if definition is not None:
            shape, now = parse(RegisterJobDefinition, json.dumps(definition).encode()), parts.clock.now()
            unregistered = job_definitions.to_definition(shape, arns=request.arns, limits=parts.limits, now=now)
        requested = submit_job.to_job_request(body, arns=request.arns, limits=parts.limits, key=None)
        try:
            return await parts.submissions.check(requested, unregistered, caller=caller)
        except DefinitionNotFound:
            raise submit_job.unknown_definition(body.jobDefinition) from None

    def _request(self, content: Mapping[str, object], operation: str, caller: Caller, invocation: str) -> BatchRequest:
        body = json.dumps(content).encode()
        return BatchRequest(
            input=JOBS[operation].parse(body),
            caller=replace(caller, operation=operation),
            arns=BatchArns(account=self._parts.account, region=self._parts.region),
            invocation=invocation,
            principal=f"console {caller.user}",
            body=body,
        )
