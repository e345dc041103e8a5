"""Handlers of CloudWatch Logs' operations: translate the request, call the service, translate the result."""

from batchq.api.logs import translate
from batchq.api.logs.context import Answer, LogsContext, LogsRequest
from batchq.api.logs.wire import requests as wire
from batchq.api.operations import takes
from batchq.logs.service import SearchPosition

MOST_EVENTS = 10_000
MOST_STREAMS = 50


@takes(wire.GetLogEvents)
async def get_log_events(desk: LogsContext, call: LogsRequest, asked: wire.GetLogEvents) -> Answer:
    translate.check_group(asked, call.arns)
    stream = await desk.logs.stream(asked.logStreamName, caller=call.caller)
    position, backwards = translate.direction(asked, stream)
    limit = asked.limit or MOST_EVENTS
    found = await desk.logs.events(
        stream, span=translate.span(asked), position=position, limit=limit, backwards=backwards
    )
    return translate.page(found, stream)


@takes(wire.FilterLogEvents)
async def filter_log_events(desk: LogsContext, call: LogsRequest, asked: wire.FilterLogEvents) -> Answer:
    translate.check_group(asked, call.arns)
    query = translate.query(asked)
    scope = translate.search_token(query)
    place = translate.place(desk.tokens.read(scope, asked.nextToken)) if asked.nextToken else SearchPosition()
    limit = asked.limit or MOST_EVENTS
    events, beyond = await desk.logs.filter(query, place=place, limit=limit, caller=call.caller, gone=call.gone)
    more = {"nextToken": desk.tokens.make(scope, translate.place_text(beyond))} if beyond else {}
    return {**translate.hits(events), **more}


@takes(wire.DescribeLogStreams)
async def describe_log_streams(desk: LogsContext, call: LogsRequest, asked: wire.DescribeLogStreams) -> Answer:
    translate.check_group(asked, call.arns)
    listing = translate.listing(asked)
    scope = translate.streams_token(listing)
    after = translate.mark(desk.tokens.read(scope, asked.nextToken)) if asked.nextToken else None
    streams, behind = await desk.logs.streams(
        listing, after=after, limit=asked.limit or MOST_STREAMS, caller=call.caller
    )
    more = {"nextToken": desk.tokens.make(scope, translate.mark_text(behind))} if behind else {}
    return {"logStreams": [translate.stream(it, call.arns) for it in streams], **more}


@takes(wire.DescribeLogGroups)
async def describe_log_groups(desk: LogsContext, call: LogsRequest, asked: wire.DescribeLogGroups) -> Answer:
    found = translate.is_group_asked(asked, call.arns)
    return {"logGroups": [translate.group(call.arns, since=desk.since)] if found else []}
