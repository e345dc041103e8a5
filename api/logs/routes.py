"""The operations of CloudWatch Logs."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from batchq.api.http.http import REQUEST_ID, error_response
from batchq.api.logs import translate
from batchq.api.logs.translate import (
    DescribeLogGroups,
    DescribeLogStreams,
    FilterLogEvents,
    GetLogEvents,
    LogArns,
    OfGroup,
)
from batchq.api.operations.operation_table import CONTENT_TYPE, OperationTable, dialect_of
from batchq.api.operations.operations import Answer, Call, Operation, aws_operation
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.errors import BatchqError, Invalid, NotFound, Unavailable
from batchq.logs.pages import StreamOrder, StreamQuery
from batchq.logs.service import GROUP, LogQuery, LogSearchPosition
from batchq.services.job_reads import TRAINING_GROUP

log = logging.getLogger(__name__)
PREFIX = "Logs_20140328."
MAX_EVENTS = 10_000
MAX_STREAMS = 50


async def get_log_events(parts: Parts, call: Call[Any], body: GetLogEvents) -> Answer:
    """Returns a page of the lines of one log stream, forwards or backwards."""
    name = body.logStreamName
    if translate.is_of_group(body, _arns(parts, call, TRAINING_GROUP)):
        name = await parts.training_logs.resolve(name, caller=call.caller)
    else:
        await _check_group(parts, call, body, [name])
    stream = await parts.logs.stream(name, caller=call.caller)
    position, backwards = translate.direction(body, stream)
    limit = body.limit or MAX_EVENTS
    found = await parts.logs.events(
        stream, span=translate.span(body), position=position, limit=limit, backwards=backwards
    )
    return translate.log_events_page(found, stream)


async def filter_log_events(parts: Parts, call: Call[Any], body: FilterLogEvents) -> Answer:
    """Searches the lines of log streams for a pattern."""
    query = translate.query(body)
    names: Mapping[str, str] = {}
    if translate.is_of_group(body, _arns(parts, call, TRAINING_GROUP)):
        names = await _training_streams(parts, query, call.caller)
        if not names:
            return translate.found_events((), {})
        query = replace(query, names=tuple(names), prefix="")
    else:
        await _check_group(parts, call, body, query.names)
    token = translate.search_token(query)
    position = LogSearchPosition()
    if body.nextToken:
        position = translate.parse_search_position(parts.tokens.read(token, body.nextToken))
    events, following = await parts.logs.filter(
        query,
        position=position,
        limit=body.limit or MAX_EVENTS,
        caller=call.caller,
        has_disconnected=lambda: call.http.transport is None,
    )
    more = {"nextToken": parts.tokens.make(token, translate.search_position(following))} if following else {}
    return {**translate.found_events(events, names), **more}


async def describe_log_streams(parts: Parts, call: Call[Any], body: DescribeLogStreams) -> Answer:
    """Lists log streams: one for each container of each attempt of a job."""
    listing = translate.listing(body)
    if translate.is_of_group(body, _arns(parts, call, TRAINING_GROUP)):
        return await _describe_training_streams(parts, call, listing, body)
    arns = _arns(parts, call)
    translate.check_group(body, arns)
    token = translate.streams_token(listing)
    after = translate.parse_stream_position(parts.tokens.read(token, body.nextToken)) if body.nextToken else None
    streams, last = await parts.logs.streams(listing, after=after, limit=body.limit or MAX_STREAMS, caller=call.caller)
    more = {"nextToken": parts.tokens.make(token, translate.stream_position(last))} if last else {}
    return {"logStreams": [translate.log_stream(summary, arns) for summary in streams], **more}


async def describe_log_groups(parts: Parts, call: Call[Any], body: DescribeLogGroups) -> Answer:
    """Describes the log groups `/aws/batch/job` and `/aws/sagemaker/TrainingJobs`."""
    token = "DescribeLogGroups", body.logGroupNamePrefix, body.logGroupNamePattern
    after = parts.tokens.read(token, body.nextToken) if body.nextToken is not None else ""
    groups = (_arns(parts, call, group) for group in (GROUP, TRAINING_GROUP))
    rest = [arns for arns in groups if translate.selects_group(body, arns) and arns.name > after]
    page = rest[: body.limit or len(rest)]
    more = {"nextToken": parts.tokens.make(token, page[-1].name)} if len(rest) > len(page) else {}
    return {"logGroups": [translate.log_group(arns, since=parts.installed_at) for arns in page], **more}


def _arns(parts: Parts, call: Call[Any], group: str = GROUP) -> LogArns:
    return LogArns(account=parts.account, region=parts.region_of(call.http), name=group)


async def _check_group(parts: Parts, call: Call[Any], body: OfGroup, names: Sequence[str]) -> None:
    """Raise Invalid and NotFound unless the request names the server's log group, or that of all streams `names`."""
    arns = _arns(parts, call)
    try:
        translate.check_group(body, arns)
    except NotFound:
        group = translate.named_group(body, arns)
        if group is None or not await parts.logs.are_in_group(names, group, caller=call.caller):
            raise


async def _training_streams(parts: Parts, query: LogQuery, caller: Caller) -> Mapping[str, str]:
    """SageMaker's names of the existing streams that a query selects, by their names in `/aws/batch/job`."""
    if query.names:
        return {await parts.training_logs.resolve(alias, caller=caller): alias for alias in dict.fromkeys(query.names)}
    named = await parts.training_logs.names(query.prefix, caller=caller)
    existing = await parts.logs.existing(tuple(named.values()), caller=caller)
    by_name = {stream.name for stream in existing}
    return {name: alias for alias, name in named.items() if name in by_name}


async def _describe_training_streams(
    parts: Parts, call: Call[Any], listing: StreamQuery, body: DescribeLogStreams
) -> Answer:
    """The streams of one job, by SageMaker's names."""
    if listing.order is not StreamOrder.NAME or listing.descending:
        raise Invalid(f"In {TRAINING_GROUP} streams are ordered by LogStreamName, ascending.")
    token = TRAINING_GROUP, *translate.streams_token(listing)
    after = parts.tokens.read(token, body.nextToken) if body.nextToken else ""
    named = await parts.training_logs.names(listing.prefix, caller=call.caller)
    streams = {stream.name: stream for stream in await parts.logs.existing(tuple(named.values()), caller=call.caller)}
    found = [(alias, streams[name]) for alias, name in named.items() if name in streams and alias > after]
    page = found[: body.limit or MAX_STREAMS]
    arns = _arns(parts, call, TRAINING_GROUP)
    answers = [
        translate.log_stream(await parts.logs.summary(replace(stream, name=alias)), arns) for alias, stream in page
    ]
    more = {"nextToken": parts.tokens.make(token, page[-1][0])} if len(found) > len(page) else {}
    return {"logStreams": answers, **more}


def _operation(name: str, handle: Callable[..., Awaitable[Answer | None]]) -> Operation:
    place = {"method": "POST", "path": "/", "target": PREFIX + name, "media": CONTENT_TYPE}
    return aws_operation("logs", name, Permission.SELF, handle, **place)


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


operations = OperationTable(
    [
        _operation("GetLogEvents", get_log_events),
        _operation("FilterLogEvents", filter_log_events),
        _operation("DescribeLogStreams", describe_log_streams),
        _operation("DescribeLogGroups", describe_log_groups),
    ],
    failed=_failed,
)
dialect = dialect_of(operations)
