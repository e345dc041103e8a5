"""Bulk stop: cancel or terminate many jobs with one request, by ids and filters. Decision 0023.

The jobs are selected once, in one transaction; jobs that are finished, or do not exist for the caller, do not affect
the others. A malformed id, state or signal, and the name of a queue, user or account that does not exist or is not
visible to the caller are refused, and nothing is changed.
"""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Annotated

import msgspec
from aiohttp import web
from pydantic import Field

from batchq.api.http.http import REQUEST_ID, Reason, send_stream
from batchq.api.native.job_selection import SelectionBody
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import BULK_LIMIT, Call
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import stop_order_answer
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.bulk_stop import JobOutcome, outcome_message
from batchq.domain.enums import StopKind
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_request import StopRequest, parse_signal
from batchq.errors import Invalid
from batchq.ports.responses.stops import CountsLine, JobLine
from batchq.services.bulk_stop import require_stop_ids

NDJSON = "application/x-ndjson"

_ENCODER = msgspec.json.Encoder()


class CancelJobsRequest(SelectionBody):
    """The jobs to stop: at least one filter is required, beside times of creation and `children`."""

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
    return await _stop(parts, call)


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
    return await _stop(parts, call)


async def _stop(parts: Parts, call: Call[CancelJobsRequest] | Call[TerminateJobsRequest]) -> web.StreamResponse:
    stops, caller, body = parts.bulk_stops, call.caller, call.input
    request, selection = stop_request(body, caller), to_selection(body, caller)
    await stops.check(selection, caller=caller)
    outcomes = await (stops.preview if body.dry_run else stops.stop)(request, selection, caller=caller)
    return await _stream_outcomes(call.http, outcomes, dry_run=body.dry_run)


def stop_request(body: CancelJobsRequest, caller: Caller) -> StopRequest:
    """What each selected job receives. Raises Invalid for an unknown signal."""
    author = caller.user or "a request"
    if not isinstance(body, TerminateJobsRequest):
        return StopRequest(kind=StopKind.CANCEL, reason=body.reason or f"Cancelled by {author}")
    return StopRequest(
        kind=StopKind.TERMINATE,
        reason=body.reason or f"Terminated by {author}",
        grace=None if body.grace_seconds is None else timedelta(seconds=body.grace_seconds),
        signal=None if body.signal is None else parse_signal(body.signal),
        checkpoint=body.checkpoint,
        keep_checkpoints=body.keep_checkpoints,
        force=body.force,
    )


def to_selection(body: CancelJobsRequest, caller: Caller) -> JobSelection:
    """The selected jobs. Raises Invalid without a filter, and for a malformed id or status."""
    if body.selects_nothing:
        raise Invalid("At least one filter is required.")
    selection = body.selection(caller)
    require_stop_ids(selection.ids or ())
    return selection


async def _stream_outcomes(
    request: web.Request, outcomes: AsyncIterator[tuple[JobOutcome, ...]], *, dry_run: bool
) -> web.StreamResponse:
    """Send a line for each job as it is handled, and the last line.

    If the response cannot be completed the connection is aborted, so that the client notices.
    """
    answer = web.StreamResponse(headers={"x-amzn-RequestId": request[REQUEST_ID], "Content-Type": NDJSON})
    is_whole = False
    try:
        await send_stream(request, answer, _encoded(outcomes, dry_run=dry_run))
        is_whole = True
    except ConnectionError:
        pass  # the client disconnected, or was disconnected because it read too slowly; the order is carried out
    finally:
        if not is_whole and request.transport is not None:
            request.transport.abort()
    return answer


async def _encoded(outcomes: AsyncIterator[tuple[JobOutcome, ...]], *, dry_run: bool) -> AsyncIterator[bytes]:
    counts, children = Counter[str](), Counter[str]()
    async for some in outcomes:
        counts.update(outcome.outcome.value for outcome in some)
        for outcome in some:
            children[outcome.outcome.value] += outcome.children
        yield _ENCODER.encode_lines(map(_line, some))
    yield _ENCODER.encode_lines([CountsLine(counts=counts, children=dict(+children), dry_run=dry_run)])


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
