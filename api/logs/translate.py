"""Translation of CloudWatch Logs' requests to the domain, and of results to responses. Pure.

Tokens of GetLogEvents and ids of events have 56 digits, as AWS's have: the log id as a number, and the position of the
line in the log. So they are the same in every response.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from batchq.api.logs.arns import LogArns
from batchq.api.logs.wire.requests import (
    DescribeLogGroups,
    DescribeLogStreams,
    FilterLogEvents,
    GetLogEvents,
    OfGroup,
)
from batchq.api.page_tokens import TokenQuery
from batchq.api.times import milliseconds
from batchq.errors import Invalid, NotFound
from batchq.logs.pages import Span
from batchq.logs.search import Event
from batchq.logs.service import GROUP, LogQuery, SearchPosition, StreamSummary
from batchq.logs.streams import Listing, StreamOrder, StreamPosition
from batchq.ports.logs import LogPage, LogStream, StoredLine

MILLISECOND: Final = 1_000_000  # nanoseconds
_PLACES = 10**17
_TOKEN = re.compile(r"([fb])/([0-9]{56})")

Wire = Mapping[str, object]


# ------------------------------------------------------------------------------------------------------------ requests


def check_group(asked: OfGroup, arns: LogArns) -> None:
    """Raise Invalid unless exactly one member names a group, and NotFound unless it is the server's log group."""
    if (asked.logGroupName is None) == (asked.logGroupIdentifier is None):
        raise Invalid("Exactly one of logGroupName and logGroupIdentifier must be specified.")
    if asked.logGroupName != GROUP and not arns.names_group(asked.logGroupIdentifier or ""):
        raise NotFound("The specified log group does not exist.")


def span(asked: GetLogEvents | FilterLogEvents) -> Span:
    end = None if asked.endTime is None else asked.endTime * MILLISECOND
    return Span(start=(asked.startTime or 0) * MILLISECOND, end=end)


def direction(asked: GetLogEvents, stream: LogStream) -> tuple[int | None, bool]:
    """The position to read from (None: an end of the stream), and whether to read backwards.

    Raises Invalid for a token of another stream.
    """
    if asked.nextToken is None:
        return None, not asked.startFromHead
    token = _TOKEN.fullmatch(asked.nextToken)
    if token is None or int(token[2]) // _PLACES != int(stream.tag.log_id, 16):
        raise Invalid("The specified nextToken is invalid.")
    return int(token[2]) % _PLACES, token[1] == "b"


def query(asked: FilterLogEvents) -> LogQuery:
    if asked.logStreamNames is not None and asked.logStreamNamePrefix is not None:
        raise Invalid("logStreamNames and logStreamNamePrefix are mutually exclusive.")
    return LogQuery(
        names=tuple(asked.logStreamNames or ()),
        prefix=asked.logStreamNamePrefix or "",
        span=span(asked),
        pattern=asked.filterPattern or "",
    )


def search_token(query: LogQuery) -> TokenQuery:
    return "FilterLogEvents", query.names, query.prefix, query.span.start, query.span.end, query.pattern


def listing(asked: DescribeLogStreams) -> Listing:
    order = StreamOrder(asked.orderBy or StreamOrder.NAME)
    if order is StreamOrder.LAST_EVENT and asked.logStreamNamePrefix is not None:
        raise Invalid("Cannot order by LastEventTime with a logStreamNamePrefix.")
    return Listing(order=order, descending=bool(asked.descending), prefix=asked.logStreamNamePrefix or "")


def streams_token(listing: Listing) -> TokenQuery:
    return "DescribeLogStreams", listing.order, listing.descending, listing.prefix


def is_group_asked(asked: DescribeLogGroups, arns: LogArns) -> bool:
    """Whether the request selects the log group. Raises Invalid."""
    if asked.logGroupNamePrefix is not None and asked.logGroupNamePattern is not None:
        raise Invalid("logGroupNamePrefix and logGroupNamePattern are mutually exclusive.")
    if asked.nextToken is not None:
        raise Invalid("The specified nextToken is invalid.")
    named = asked.logGroupIdentifiers is None or any(map(arns.names_group, asked.logGroupIdentifiers))
    return (
        named
        and asked.logGroupClass in {None, "STANDARD"}
        and GROUP.startswith(asked.logGroupNamePrefix or "")
        and (asked.logGroupNamePattern or "").lower() in GROUP
    )


# ----------------------------------------------------------------------------------------------------------- responses


def page(found: LogPage, stream: LogStream) -> Wire:
    """AWS: both tokens are always present; at an end of the stream the token equals that of the request."""
    return {
        "events": [_event(line) for line in found.lines],
        "nextForwardToken": f"f/{_number(stream, found.end)}",
        "nextBackwardToken": f"b/{_number(stream, found.start)}",
    }


def hits(events: Iterable[Event]) -> Wire:
    """AWS: `searchedLogStreams` is always empty."""
    told = [
        {
            "logStreamName": it.stream.name,
            **_event(it.line),
            "eventId": _number(it.stream, it.line.position),
        }
        for it in events
    ]
    return {"events": told, "searchedLogStreams": []}


def stream(summary: StreamSummary, arns: LogArns) -> Wire:
    name = summary.stream.name
    times = {
        "creationTime": milliseconds(summary.stream.created_at),
        "firstEventTimestamp": _milliseconds(summary.first),
        "lastEventTimestamp": _milliseconds(summary.last),
        "lastIngestionTime": _milliseconds(summary.last),
    }
    known = {member: time for member, time in times.items() if time is not None}
    return {"logStreamName": name, **known, "arn": arns.stream(name), "storedBytes": summary.size}


def group(arns: LogArns, *, since: datetime) -> Wire:
    """AWS: `storedBytes` is updated from time to time. Here it is always 0."""
    return {
        "logGroupName": GROUP,
        "creationTime": milliseconds(since),
        "metricFilterCount": 0,
        "arn": f"{arns.group}:*",
        "logGroupArn": arns.group,
        "storedBytes": 0,
        "logGroupClass": "STANDARD",
    }


def _milliseconds(at: int | None) -> int | None:
    return None if at is None else at // MILLISECOND


def _event(line: StoredLine) -> Wire:
    """AWS: `ingestionTime` is the timestamp or shortly after it. Here both are equal."""
    at = line.at // MILLISECOND
    return {"timestamp": at, "message": line.message, "ingestionTime": at}


def _number(of: LogStream, position: int) -> str:
    return str(int(of.tag.log_id, 16) * _PLACES + position).zfill(56)


# --------------------------------------------------------------------------------------------- positions in page tokens


def place_text(place: SearchPosition) -> str:
    return json.dumps([place.after, place.until, place.beyond])


def place(text: str) -> SearchPosition:
    """Parse the text of `place_text`."""
    after, until, beyond = json.loads(text)
    return SearchPosition(after=after, until=until, beyond=None if beyond is None else tuple(beyond))


def mark_text(mark: StreamPosition) -> str:
    return f"{mark.created_at.isoformat()} {mark.name}"


def mark(text: str) -> StreamPosition:
    """Parse the text of `mark_text`."""
    created_at, _, name = text.partition(" ")
    return StreamPosition(name=name, created_at=datetime.fromisoformat(created_at))
