"""Calls of AWS Batch's operations inside the server, with the checks and the answers of requests over HTTP."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from batchq.api.batch import job_definitions, submit_job
from batchq.api.batch.arns import BatchArns
from batchq.api.batch.context import BatchContext, BatchRequest, submission_key
from batchq.api.batch.job_definitions import RegisterJobDefinition
from batchq.api.batch.routes import JOBS
from batchq.api.batch.submit_job import SubmitJob
from batchq.api.http import parse, reply
from batchq.domain.access.accounts import Caller
from batchq.domain.access.container_policy import require_allowed_containers


class InProcessCalls:
    """Calls operations on jobs and job definitions on behalf of a caller. They need no permission but SELF."""

    def __init__(self, context: BatchContext) -> None:
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
    ) -> None:
        """Raise the errors of SubmitJob, without a change.

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
        submission = submit_job.batch_submission(body, found, arns=request.arns, limits=context.limits, key=None)
        queue = context.jobs.check(submission, caller=caller)
        context.jobs.checked_spec(submission, found, queue, caller=caller)

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
