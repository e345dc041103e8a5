"""The operations: parse, call, answer."""

from api.http import parse
from api.logs import translate
from api.logs.desk import Answer, Call, Desk
from api.logs.wire import requests as wire
from batchq.logs import Place

MOST_EVENTS = 10_000
MOST_STREAMS = 50


async def get_log_events(desk: Desk, call: Call) -> Answer:
    asked = parse(wire.GetLogEvents, call.body)
    translate.check_group(asked, call.arns)
    stream = await desk.logs.stream(asked.logStreamName)
    position, backwards = translate.direction(asked, stream)
    limit = asked.limit or MOST_EVENTS
    found = await desk.logs.events(
        stream, span=translate.span(asked), position=position, limit=limit, backwards=backwards
    )
    return translate.page(found, stream)


async def filter_log_events(desk: Desk, call: Call) -> Answer:
    asked = parse(wire.FilterLogEvents, call.body)
    translate.check_group(asked, call.arns)
    query = translate.query(asked)
    place = translate.place(desk.tokens.read(query, asked.nextToken)) if asked.nextToken else Place()
    events, beyond = await desk.logs.filter(query, place=place, limit=asked.limit or MOST_EVENTS)
    more = {"nextToken": desk.tokens.make(query, translate.place_text(beyond))} if beyond else {}
    return {**translate.hits(events), **more}


async def describe_log_streams(desk: Desk, call: Call) -> Answer:
    asked = parse(wire.DescribeLogStreams, call.body)
    translate.check_group(asked, call.arns)
    listing = translate.listing(asked)
    after = translate.mark(desk.tokens.read(listing, asked.nextToken)) if asked.nextToken else None
    streams, behind = await desk.logs.streams(listing, after=after, limit=asked.limit or MOST_STREAMS)
    more = {"nextToken": desk.tokens.make(listing, translate.mark_text(behind))} if behind else {}
    return {"logStreams": [translate.stream(it, call.arns) for it in streams], **more}


async def describe_log_groups(desk: Desk, call: Call) -> Answer:
    asked = parse(wire.DescribeLogGroups, call.body)
    found = translate.is_group_asked(asked, call.arns)
    return {"logGroups": [translate.group(call.arns, since=desk.since)] if found else []}
