"""The operations of CloudWatch Logs."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from batchq.api.http.http import REQUEST_ID, error_response, reply
from batchq.api.logs import translate
from batchq.api.logs.translate import DescribeLogGroups, DescribeLogStreams, FilterLogEvents, GetLogEvents, LogArns
from batchq.api.operations.operation_table import CONTENT_TYPE, OperationTable, dialect_of
from batchq.api.operations.operations import Answer, Call, Operation, aws_operation
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.errors import BatchqError, Invalid, NotFound, Unavailable
from batchq.logs.pages import StreamOrder, StreamQuery
from batchq.logs.service import LogQuery, LogSearchPosition
from batchq.services.job_reads import TRAINING_GROUP

log = logging.getLogger(__name__)
PREFIX = "Logs_20140328."
MAX_EVENTS = 10_000
MAX_STREAMS = 50


class LogsRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    #: The parsed body.
    input: BaseModel | None
    #: Whether the client has disconnected.
    is_disconnected: Callable[[], bool]
    caller: Caller
    #: Of `/aws/batch/job`.
    arns: LogArns

    @property
    def training_arns(self) -> LogArns:
        """Of `/aws/sagemaker/TrainingJobs`."""
        return replace(self.arns, name=TRAINING_GROUP)


async def get_log_events(parts: Parts, request: LogsRequest, body: GetLogEvents) -> Answer:
    """Returns a page of the lines of one log stream, forwards or backwards."""
    name = body.logStreamName
    if translate.is_of_group(body, request.training_arns):
        name = await parts.training_logs.resolve(name, caller=request.caller)
    else:
        translate.check_group(body, request.arns)
    stream = await parts.logs.stream(name, caller=request.caller)
    position, backwards = translate.direction(body, stream)
    limit = body.limit or MAX_EVENTS
    found = await parts.logs.events(
        stream, span=translate.span(body), position=position, limit=limit, backwards=backwards
    )
    return translate.log_events_page(found, stream)


async def filter_log_events(parts: Parts, request: LogsRequest, body: FilterLogEvents) -> Answer:
    """Searches the lines of log streams for a pattern."""
    query = translate.query(body)
    names: Mapping[str, str] = {}
    if translate.is_of_group(body, request.training_arns):
        names = await _training_streams(parts, query, request.caller)
        if not names:
            return translate.found_events((), {})
        query = replace(query, names=tuple(names), prefix="")
    else:
        translate.check_group(body, request.arns)
    token = translate.search_token(query)
    position = LogSearchPosition()
    if body.nextToken:
        position = translate.parse_search_position(parts.tokens.read(token, body.nextToken))
    events, following = await parts.logs.filter(
        query,
        position=position,
        limit=body.limit or MAX_EVENTS,
        caller=request.caller,
        has_disconnected=request.is_disconnected,
    )
    more = {"nextToken": parts.tokens.make(token, translate.search_position(following))} if following else {}
    return {**translate.found_events(events, names), **more}


async def describe_log_streams(parts: Parts, request: LogsRequest, body: DescribeLogStreams) -> Answer:
    """Lists log streams: one for each container of each attempt of a job."""
    listing = translate.listing(body)
    if translate.is_of_group(body, request.training_arns):
        return await _describe_training_streams(parts, request, listing, body)
    translate.check_group(body, request.arns)
    token = translate.streams_token(listing)
    after = translate.parse_stream_position(parts.tokens.read(token, body.nextToken)) if body.nextToken else None
    streams, last = await parts.logs.streams(
        listing, after=after, limit=body.limit or MAX_STREAMS, caller=request.caller
    )
    more = {"nextToken": parts.tokens.make(token, translate.stream_position(last))} if last else {}
    return {"logStreams": [translate.log_stream(summary, request.arns) for summary in streams], **more}


async def describe_log_groups(parts: Parts, request: LogsRequest, body: DescribeLogGroups) -> Answer:
    """Describes the log groups `/aws/batch/job` and `/aws/sagemaker/TrainingJobs`."""
    token = "DescribeLogGroups", body.logGroupNamePrefix, body.logGroupNamePattern
    after = parts.tokens.read(token, body.nextToken) if body.nextToken is not None else ""
    groups = [arns for arns in (request.arns, request.training_arns) if translate.selects_group(body, arns)]
    rest = [arns for arns in groups if arns.name > after]
    page = rest[: body.limit or len(rest)]
    more = {"nextToken": parts.tokens.make(token, page[-1].name)} if len(rest) > len(page) else {}
    return {"logGroups": [translate.log_group(arns, since=parts.installed_at) for arns in page], **more}


async def _training_streams(parts: Parts, query: LogQuery, caller: Caller) -> Mapping[str, str]:
    """SageMaker's names of the existing streams that a query selects, by their names in `/aws/batch/job`."""
    if query.names:
        return {await parts.training_logs.resolve(alias, caller=caller): alias for alias in dict.fromkeys(query.names)}
    named = await parts.training_logs.names(query.prefix, caller=caller)
    existing = await parts.logs.existing(tuple(named.values()), caller=caller)
    by_name = {stream.name for stream in existing}
    return {name: alias for alias, name in named.items() if name in by_name}


async def _describe_training_streams(
    parts: Parts, request: LogsRequest, listing: StreamQuery, body: DescribeLogStreams
) -> Answer:
    """The streams of one job, by SageMaker's names."""
    if listing.order is not StreamOrder.NAME or listing.descending:
        raise Invalid(f"In {TRAINING_GROUP} streams are ordered by LogStreamName, ascending.")
    token = TRAINING_GROUP, *translate.streams_token(listing)
    after = parts.tokens.read(token, body.nextToken) if body.nextToken else ""
    named = await parts.training_logs.names(listing.prefix, caller=request.caller)
    streams = {
        stream.name: stream for stream in await parts.logs.existing(tuple(named.values()), caller=request.caller)
    }
    found = [(alias, streams[name]) for alias, name in named.items() if name in streams and alias > after]
    page = found[: body.limit or MAX_STREAMS]
    answers = [
        translate.log_stream(await parts.logs.summary(replace(stream, name=alias)), request.training_arns)
        for alias, stream in page
    ]
    more = {"nextToken": parts.tokens.make(token, page[-1][0])} if len(found) > len(page) else {}
    return {"logStreams": answers, **more}


def _operation(name: str, handle: Callable[..., Awaitable[Answer]]) -> Operation:
    place = {"method": "POST", "path": "/", "target": PREFIX + name, "media": CONTENT_TYPE}
    return aws_operation("logs", name, Permission.SELF, handle, **place)


async def _send(parts: Parts, operation: Operation, call: Call[Any]) -> web.StreamResponse:
    http = call.http
    request = LogsRequest(
        input=call.input,
        is_disconnected=lambda: http.transport is None,
        arns=LogArns(account=parts.account, region=parts.region_of(http)),
        caller=call.caller,
    )
    return reply(await operation.handle(parts, request))


def _failed(request: web.Request, _operation: Operation, error: BatchqError) -> web.StreamResponse:
    match error:
        case NotFound():
            return error_response(HTTPStatus.BAD_REQUEST, "ResourceNotFoundException", str(error))
        case Invalid():
            return error_response(HTTPStatus.BAD_REQUEST, "InvalidParameterException", str(error))
        case Unavailable():
            log.warning("request %s: %s", request[REQUEST_ID], error)
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", str(error))
        case _:
            raise error


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        _operation("GetLogEvents", get_log_events),
        _operation("FilterLogEvents", filter_log_events),
        _operation("DescribeLogStreams", describe_log_streams),
        _operation("DescribeLogGroups", describe_log_groups),
    )
}
operations = OperationTable(OPERATIONS.values(), carry_out=_send, failed=_failed)
dialect = dialect_of(operations)
