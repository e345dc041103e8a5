"""The operations of CloudWatch Logs."""

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from batchq.api.auth.authentication import authorize, parse_credential
from batchq.api.http.http import REQUEST_ID, Dialect, HttpRefusal, error_response, read_body, reply
from batchq.api.logs import translate
from batchq.api.logs.translate import DescribeLogGroups, DescribeLogStreams, FilterLogEvents, GetLogEvents, LogArns
from batchq.api.operations.operations import Answer, Operation, add_targets, takes, target_docs, unknown_operation
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.errors import Invalid, NotFound, Unavailable
from batchq.logs.pages import StreamOrder, StreamQuery
from batchq.logs.service import LogQuery, LogSearchPosition
from batchq.services.job_reads import TRAINING_GROUP

log = logging.getLogger(__name__)
PREFIX = "Logs_20140328."
MAX_EVENTS = 10_000
MAX_STREAMS = 50


class LogsRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    body: bytes
    #: Whether the client has disconnected.
    is_disconnected: Callable[[], bool]
    caller: Caller
    #: Of `/aws/batch/job`.
    arns: LogArns

    @property
    def training_arns(self) -> LogArns:
        """Of `/aws/sagemaker/TrainingJobs`."""
        return replace(self.arns, name=TRAINING_GROUP)


@takes(GetLogEvents)
async def get_log_events(context: Parts, request: LogsRequest, body: GetLogEvents) -> Answer:
    """Returns a page of the lines of one log stream, forwards or backwards."""
    name = body.logStreamName
    if translate.is_of_group(body, request.training_arns):
        name = await context.training_logs.resolve(name, caller=request.caller)
    else:
        translate.check_group(body, request.arns)
    stream = await context.logs.stream(name, caller=request.caller)
    position, backwards = translate.direction(body, stream)
    limit = body.limit or MAX_EVENTS
    found = await context.logs.events(
        stream, span=translate.span(body), position=position, limit=limit, backwards=backwards
    )
    return translate.log_events_page(found, stream)


@takes(FilterLogEvents)
async def filter_log_events(context: Parts, request: LogsRequest, body: FilterLogEvents) -> Answer:
    """Searches the lines of log streams for a pattern."""
    query = translate.query(body)
    names: Mapping[str, str] = {}
    if translate.is_of_group(body, request.training_arns):
        names = await _training_streams(context, query, request.caller)
        if not names:
            return translate.found_events((), {})
        query = replace(query, names=tuple(names), prefix="")
    else:
        translate.check_group(body, request.arns)
    token = translate.search_token(query)
    position = LogSearchPosition()
    if body.nextToken:
        position = translate.parse_search_position(context.tokens.read(token, body.nextToken))
    events, following = await context.logs.filter(
        query,
        position=position,
        limit=body.limit or MAX_EVENTS,
        caller=request.caller,
        has_disconnected=request.is_disconnected,
    )
    more = {"nextToken": context.tokens.make(token, translate.search_position(following))} if following else {}
    return {**translate.found_events(events, names), **more}


@takes(DescribeLogStreams)
async def describe_log_streams(context: Parts, request: LogsRequest, body: DescribeLogStreams) -> Answer:
    """Lists log streams: one for each container of each attempt of a job."""
    listing = translate.listing(body)
    if translate.is_of_group(body, request.training_arns):
        return await _describe_training_streams(context, request, listing, body)
    translate.check_group(body, request.arns)
    token = translate.streams_token(listing)
    after = translate.parse_stream_position(context.tokens.read(token, body.nextToken)) if body.nextToken else None
    streams, last = await context.logs.streams(
        listing, after=after, limit=body.limit or MAX_STREAMS, caller=request.caller
    )
    more = {"nextToken": context.tokens.make(token, translate.stream_position(last))} if last else {}
    return {"logStreams": [translate.log_stream(summary, request.arns) for summary in streams], **more}


@takes(DescribeLogGroups)
async def describe_log_groups(context: Parts, request: LogsRequest, body: DescribeLogGroups) -> Answer:
    """Describes the log groups `/aws/batch/job` and `/aws/sagemaker/TrainingJobs`."""
    token = "DescribeLogGroups", body.logGroupNamePrefix, body.logGroupNamePattern
    after = context.tokens.read(token, body.nextToken) if body.nextToken is not None else ""
    groups = [arns for arns in (request.arns, request.training_arns) if translate.selects_group(body, arns)]
    rest = [arns for arns in groups if arns.name > after]
    page = rest[: body.limit or len(rest)]
    more = {"nextToken": context.tokens.make(token, page[-1].name)} if len(rest) > len(page) else {}
    return {"logGroups": [translate.log_group(arns, since=context.installed_at) for arns in page], **more}


async def _training_streams(context: Parts, query: LogQuery, caller: Caller) -> Mapping[str, str]:
    """SageMaker's names of the existing streams that a query selects, by their names in `/aws/batch/job`."""
    if query.names:
        return {
            await context.training_logs.resolve(fromkey, caller=caller): fromkey
            for fromkey in dict.fromkeys(query.names)
        }
    named = await context.training_logs.names(query.prefix, caller=caller)
    existing = await context.logs.existing(tuple(named.values()), caller=caller)
    by_name = {stream.name for stream in existing}
    return {name: alias for alias, name in named.items() if name in by_name}


async def _describe_training_streams(
    context: Parts, request: LogsRequest, listing: StreamQuery, body: DescribeLogStreams
) -> Answer:
    """The streams of one job, by SageMaker's names."""
    if listing.order is not StreamOrder.NAME or listing.descending:
        raise Invalid(f"In {TRAINING_GROUP} streams are ordered by LogStreamName, ascending.")
    token = TRAINING_GROUP, *translate.streams_token(listing)
    after = context.tokens.read(token, body.nextToken) if body.nextToken else ""
    named = await context.training_logs.names(listing.prefix, caller=request.caller)
    streams = {
        stream.name: stream for stream in await context.logs.existing(tuple(named.values()), caller=request.caller)
    }
    found = [(alias, streams[name]) for alias, name in named.items() if name in streams and alias > after]
    page = found[: body.limit or MAX_STREAMS]
    answers = [
        translate.log_stream(await context.logs.summary(replace(stream, name=alias)), request.training_arns)
        for alias, stream in page
    ]
    more = {"nextToken": context.tokens.make(token, page[-1][0])} if len(found) > len(page) else {}
    return {"logStreams": answers, **more}


OPERATIONS: Mapping[str, Operation[LogsRequest]] = {
    "GetLogEvents": get_log_events,
    "FilterLogEvents": filter_log_events,
    "DescribeLogStreams": describe_log_streams,
    "DescribeLogGroups": describe_log_groups,
}


def dialect(context: Parts) -> Dialect:
    async def handle(request: web.Request, name: str) -> web.Response:
        return await _handle(request, context, name)

    def mount(app: web.Application) -> None:
        add_targets(app, PREFIX, handle, target_docs(PREFIX, OPERATIONS, service="logs", qualified=False))

    return mount


async def _handle(request: web.Request, context: Parts, name: str) -> web.Response:
    operation = OPERATIONS.get(name)
    if operation is None:
        return unknown_operation(PREFIX + name)
    try:
        return reply(await operation(context, await _request(request, context, name)))
    except HttpRefusal:
        raise
    except NotFound as why:
        return error_response(HTTPStatus.BAD_REQUEST, "ResourceNotFoundException", str(why))
    except Invalid as why:
        return error_response(HTTPStatus.BAD_REQUEST, "InvalidParameterException", str(why))
    except Unavailable as why:
        log.warning("request %s: %s", request[REQUEST_ID], why)
        return error_response(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", str(why))


async def _request(request: web.Request, context: Parts, name: str) -> LogsRequest:
    credential = parse_credential(request.headers.get("Authorization", ""))
    return LogsRequest(
        body=await read_body(request),
        is_disconnected=lambda: request.transport is None,
        arns=LogArns(account=context.account, region=credential.region or context.region),
        caller=authorize(request, Permission.SELF, name),
    )
