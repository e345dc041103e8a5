"""Bulk stop: cancel or terminate many jobs with one request, by ids and filters. Decision 0023.

The jobs are selected once, in one transaction; jobs that are finished, or do not exist for the caller, do not affect
the others. A malformed id, state or signal, and the name of a queue, user or account that does not exist or is not
visible to the caller are refused, and nothing is changed.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Annotated

import msgspec
from aiohttp import web
from pydantic import Field

from batchq.api.http.http import REQUEST_ID, Milliseconds, Reason, RequestBody, Word, Words, begin_stream
from batchq.api.native.job_search import optional_set
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import BULK_LIMIT, Call
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import stop_order_answer
from batchq.domain.access.accounts import AccountName, Permission
from batchq.domain.bulk_stop import BulkStopOrder, JobFilter, JobOutcome, Kind, outcome_message
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status
from batchq.errors import Invalid
from batchq.ports.responses.stops import CountsLine, JobLine
from batchq.services.bulk_stop import JobSelector, require_stop_ids

NDJSON = "application/x-ndjson"

MAX_PATTERNS = 100  # in `jobNames`: each pattern is compared with the name of each job

ALL = "ALL"
SIGNALS = frozenset({"ABRT", "ALRM", "HUP", "INT", "KILL", "QUIT", "TERM", "USR1", "USR2", "WINCH"})
STATES = {Status.PENDING.value: QUEUED, Status.RUNNING.value: ACTIVE} | {
    status.value: frozenset({status}) for status in Status if status not in FINISHED | {Status.PENDING, Status.RUNNING}
}
_ENCODER = msgspec.json.Encoder()
_QUEUE = re.compile(r"arn:aws[a-z-]*:batch:[a-z0-9-]*:\d*:job-queue/(?P<name>[^/]+)")


class CancelJobsRequest(RequestBody):
    """Filters, of which at least one is required and all must match; the values of one filter are alternatives."""

    #: Jobs, children of arrays as `ARRAY:3`, nodes of gangs as `GANG#1`, `.3` for either, and containers of a task by
    #: name or index, as `JOB.sidecar`.
    jobs: Annotated[list[Word], Field(min_length=1, max_length=5000)] | None = None
    #: In any case; a trailing `*` matches any rest.
    job_names: Annotated[list[Word], Field(min_length=1, max_length=MAX_PATTERNS)] | None = None
    users: Words | None = None
    #: With the accounts below them.
    accounts: Words | None = None
    #: Names or ARNs.
    job_queues: Words | None = None
    #: In any case. PENDING is SUBMITTED, PENDING and RUNNABLE; RUNNING is STARTING and RUNNING; or ALL, or one status.
    states: Words | None = None
    #: Where the jobs run now.
    compute_environments: Words | None = None
    #: In milliseconds since 1970: an order after a dry run leaves jobs alone that were submitted since. Needs another
    #: filter.
    created_before: Milliseconds | None = None
    reason: Reason | None = None
    #: Whether only the outcomes are reported.
    dry_run: bool = False


class TerminateJobsRequest(CancelJobsRequest):
    #: In place of SIGTERM.
    signal: Annotated[str, Field(max_length=16)] | None = None
    #: In place of the grace period of each job.
    grace_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    #: Whether a final checkpoint is requested of running jobs first.
    checkpoint: bool = False
    #: Whether the checkpoints from before the order are kept.
    keep_checkpoints: bool = True
    #: SIGKILL at once, also for jobs that are stopping; not with `checkpoint`.
    force: bool = False


_LINES = (JobLine, CountsLine)

operations = OperationTable()


@operations.add(
    "CancelJobsByFilter",
    "POST",
    "/v1/batchq/canceljobs",
    Permission.SELF,
    limit=BULK_LIMIT,
    answer=_LINES,
    response_media=NDJSON,
)
async def cancel_jobs(parts: Parts, call: Call[CancelJobsRequest]) -> web.StreamResponse:
    """Cancels all jobs that match the filters.

    The answer is NDJSON: a line for each job as soon as it is handled, and a last line with `counts`. If the last line
    is missing, the answer was cut off, but the order is carried out all the same. See docs/stopping-many.md.
    """
    return await _stop(parts, call.input, call)


@operations.add(
    "TerminateJobsByFilter",
    "POST",
    "/v1/batchq/terminatejobs",
    Permission.SELF,
    limit=BULK_LIMIT,
    answer=_LINES,
    response_media=NDJSON,
)
async def terminate_jobs(parts: Parts, call: Call[TerminateJobsRequest]) -> web.StreamResponse:
    """Terminates all jobs that match the filters.

    The answer is NDJSON: a line for each job as soon as it is handled, and a last line with `counts`. If the last line
    is missing, the answer was cut off, but the order is carried out all the same. See docs/stopping-many.md.
    """
    return await _stop(parts, call.input, call)


async def _stop(
    parts: Parts, body: CancelJobsRequest, call: Call[CancelJobsRequest] | Call[TerminateJobsRequest]
) -> web.StreamResponse:
    order, filters = to_order(body, str(call.caller.user)), to_request(body)
    await parts.bulk_stops.check(filters, caller=call.caller)
    outcomes = await (parts.bulk_stops.preview if body.dry_run else parts.bulk_stops.stop)(
        order, filters, caller=call.caller
    )
    return await _stream_outcomes(call.http, outcomes, dry_run=body.dry_run)


def to_order(request: CancelJobsRequest, user: str) -> BulkStopOrder:
    """The order that each selected job receives. Raises Invalid for an unknown signal, and for one with force."""
    if not isinstance(request, TerminateJobsRequest):
        return BulkStopOrder(kind=Kind.CANCEL, reason=request.reason or f"Cancelled by {user or 'a request'}")
    if request.force and (request.signal is not None or request.grace_seconds is not None):
        raise Invalid("'force' sends SIGKILL at once: it cannot be combined with 'signal' or 'graceSeconds'.")
    return BulkStopOrder(
        kind=Kind.TERMINATE,
        reason=request.reason or f"Terminated by {user or 'a request'}",
        grace=None if request.grace_seconds is None else timedelta(seconds=request.grace_seconds),
        signal=None if request.signal is None else _signal(request.signal),
        checkpoint=request.checkpoint,
        keep_checkpoints=request.keep_checkpoints,
        force=request.force,
    )


def to_request(request: CancelJobsRequest) -> JobSelector:
    """The filters of a request. Raises Invalid without a filter, and for a malformed id or state."""
    filters = (
        request.jobs,
        request.job_names,
        request.users,
        request.accounts,
        request.job_queues,
        request.states,
        request.compute_environments,
    )
    if all(given is None for given in filters):
        raise Invalid("At least one filter is required.")
    require_stop_ids(request.jobs or ())
    queues = None if request.job_queues is None else frozenset(_queue(name) for name in request.job_queues)
    rest = JobFilter(
        names=optional_set(request.job_names),
        users=optional_set(request.users),
        queues=queues,
        statuses=None if request.states is None else _statuses(request.states),
        environments=optional_set(request.compute_environments),
        created_before=request.created_before,
    )
    accounts = None if request.accounts is None else frozenset(map(AccountName, request.accounts))
    return JobSelector(ids=None if request.jobs is None else tuple(request.jobs), accounts=accounts, rest=rest)


def _statuses(states: Iterable[str]) -> frozenset[Status] | None:
    """The statuses that `states` select; None: all that are not finished. Raises Invalid for an unknown state."""
    wanted = {state.upper() for state in states}
    unknown = sorted(wanted - STATES.keys() - {ALL})
    if unknown:
        raise Invalid(f"{unknown[0][:100]!r} is not a state: use {', '.join(sorted(STATES))} or ALL.")
    return None if ALL in wanted else frozenset(status for state in wanted for status in STATES[state])


def _signal(text: str) -> str:
    name = text.upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise Invalid(f"{text!r} is not a supported signal: use {', '.join(sorted(SIGNALS))}.")
    return f"SIG{name}"


def _queue(text: str) -> str:
    found = _QUEUE.fullmatch(text)
    return text if found is None else found["name"]


async def _stream_outcomes(
    request: web.Request, outcomes: AsyncIterator[tuple[JobOutcome, ...]], *, dry_run: bool
) -> web.StreamResponse:
    """Send a line for each job as it is handled, and the last line.

    If the response cannot be completed the connection is aborted, so that the client notices.
    """
    answer = web.StreamResponse(headers={"x-amzn-RequestId": request[REQUEST_ID], "Content-Type": NDJSON})
    counts, children = Counter[str](), Counter[str]()
    is_whole = False
    try:
        await begin_stream(request, answer)
        async for some in outcomes:
            counts.update(outcome.outcome.value for outcome in some)
            for outcome in some:
                children[outcome.outcome.value] += outcome.children
            await answer.write(_ENCODER.encode_lines(map(_line, some)))
        await answer.write(
            _ENCODER.encode_lines([CountsLine(counts=counts, children=dict(+children), dry_run=dry_run)])
        )
        await answer.write_eof()
        is_whole = True
    except ConnectionError:
        pass  # the client disconnected, or was disconnected because it read too slowly; the order is carried out
    finally:
        if not is_whole and request.transport is not None:
            request.transport.abort()
    return answer


def _line(outcome: JobOutcome) -> JobLine:
    name = None if outcome.status is None else outcome.name
    standing = None if outcome.standing is None else stop_order_answer(outcome.standing)
    return JobLine(
        job_id=outcome.job_id,
        job_name=name,
        status=outcome.status,
        outcome=outcome.outcome,
        message=outcome_message(outcome),
        standing=standing,
        children=outcome.children,
    )
