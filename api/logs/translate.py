"""Shapes of CloudWatch Logs' requests, their translation to the domain, and that of results to responses. Pure.

Members are spelt as AWS spells them; None: the member is omitted. ARNs in responses have the caller's region; the
region of an ARN in a request is ignored.

Tokens of GetLogEvents and ids of events have 56 digits, as AWS's have: the log id as a number, and the position of the
line in the log. So they are the same in every response.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.http.page_tokens import TokenQuery
from batchq.domain.times import milliseconds
from batchq.errors import Invalid, NotFound
from batchq.logs.pages import Span, StreamOrder, StreamPosition, StreamQuery
from batchq.logs.search import Event
from batchq.logs.service import GROUP, LogQuery, LogSearchPosition, StreamSummary
from batchq.ports.logs import LogPage, LogStream, StoredLine


class LogsWireModel(BaseModel):
    """Strict: a string is not converted to a number. Unknown members are ignored; the last of equal members counts."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


GroupName = Annotated[str, Field(min_length=1, max_length=512)]
GroupIdentifier = Annotated[str, Field(min_length=1, max_length=2048)]
StreamName = Annotated[str, Field(min_length=1, max_length=512)]
Milliseconds = Annotated[int, Field(ge=0, le=2**63 - 1)]
Token = Annotated[str, Field(min_length=1, max_length=2048)]
Events = Annotated[int, Field(ge=1, le=10_000)]
Described = Annotated[int, Field(ge=1, le=50)]


class OfGroup(LogsWireModel):
    """A request about one log group. AWS: exactly one of the two members, the latter a name or an ARN, is required."""

    logGroupName: GroupName | None = None
    logGroupIdentifier: GroupIdentifier | None = None


class GetLogEvents(OfGroup):
    logStreamName: StreamName
    startTime: Milliseconds | None = None
    endTime: Milliseconds | None = None
    nextToken: Token | None = None
    limit: Events | None = None
    startFromHead: bool | None = None
    unmask: bool | None = None


class FilterLogEvents(OfGroup):
    logStreamNames: Annotated[list[StreamName], Field(min_length=1, max_length=100)] | None = None
    logStreamNamePrefix: StreamName | None = None
    startTime: Milliseconds | None = None
    endTime: Milliseconds | None = None
    filterPattern: Annotated[str, Field(max_length=1024)] | None = None
    nextToken: Token | None = None
    limit: Events | None = None
    startFromHead: bool | None = None
    interleaved: bool | None = None
    unmask: bool | None = None


class DescribeLogStreams(OfGroup):
    logStreamNamePrefix: StreamName | None = None
    orderBy: Literal["LogStreamName", "LastEventTime"] | None = None
    descending: bool | None = None
    nextToken: Token | None = None
    limit: Described | None = None


class DescribeLogGroups(LogsWireModel):
    accountIdentifiers: list[str] | None = None
    logGroupNamePrefix: GroupName | None = None
    logGroupNamePattern: Annotated[str, Field(max_length=512)] | None = None
    nextToken: Token | None = None
    limit: Described | None = None
    includeLinkedAccounts: bool | None = None
    logGroupClass: Literal["STANDARD", "INFREQUENT_ACCESS", "DELIVERY", "ESSENTIALS"] | None = None
    logGroupIdentifiers: Annotated[list[GroupIdentifier], Field(min_length=1, max_length=50)] | None = None


MILLISECOND: Final = 1_000_000  # nanoseconds
_POSITIONS = 10**17
_GROUP = re.compile(r"arn:aws[a-z-]*:logs:[a-z0-9-]*:(?P<account>[0-9]*):log-group:(?P<name>[^:]+)(?::\*)?")
_TOKEN = re.compile(r"([fb])/([0-9]{56})")
Wire = Mapping[str, object]


class LogArns(Struct, frozen=True, kw_only=True):
    """Formats and parses ARNs for one caller."""

    #: The account id of the server.
    account: str
    #: The region of the caller's credential, or the server's.
    region: str
    #: The log group.
    name: str = GROUP

    @property
    def group(self) -> str:
        return f"arn:aws:logs:{self.region}:{self.account}:log-group:{self.name}"

    def stream(self, name: str) -> str:
        return f"{self.group}:log-stream:{name}"

    def names_group(self, identifier: str) -> bool:
        """Whether `identifier` is the name or an ARN of the log group."""
        arn = _GROUP.fullmatch(identifier)
        return identifier == self.name if arn is None else (arn["account"], arn["name"]) == (self.account, self.name)


# ------------------------------------------------------------------------------------------------------------ requests


def is_of_group(body: OfGroup, arns: LogArns) -> bool:
    """Whether the request names the log group of `arns`, and no other one."""
    named = body.logGroupName, body.logGroupIdentifier
    return None in named and any(text is not None and arns.names_group(text) for text in named)


def check_group(body: OfGroup, arns: LogArns) -> None:
    """Raise Invalid unless exactly one member names a group, and NotFound unless it is the server's log group."""
    if (body.logGroupName is None) == (body.logGroupIdentifier is None):
        raise Invalid("Exactly one of logGroupName and logGroupIdentifier must be specified.")
    if body.logGroupName != GROUP and not arns.names_group(body.logGroupIdentifier or ""):
        raise NotFound("The specified log group does not exist.")


def named_group(body: OfGroup, arns: LogArns) -> str | None:
    """The name of the log group of a request; None if it is in another account."""
    identifier = body.logGroupName or body.logGroupIdentifier or ""
    arn = _GROUP.fullmatch(identifier)
    if arn is None:
        return identifier
    return arn["name"] if arn["account"] == arns.account else None


def span(body: GetLogEvents | FilterLogEvents) -> Span:
    end = None if body.endTime is None else body.endTime * MILLISECOND
    return Span(start=(body.startTime or 0) * MILLISECOND, end=end)


def direction(body: GetLogEvents, stream: LogStream) -> tuple[int | None, bool]:
    """The position to read from (None: an end of the stream), and whether to read backwards.

    Raises Invalid for a token of another stream.
    """
    if body.nextToken is None:
        return None, not body.startFromHead
    token = _TOKEN.fullmatch(body.nextToken)
    if token is None or int(token[2]) // _POSITIONS != int(stream.tag.log_id, 16):
        raise Invalid("The specified nextToken is invalid.")
    return int(token[2]) % _POSITIONS, token[1] == "b"


def query(body: FilterLogEvents) -> LogQuery:
    if body.logStreamNames is not None and body.logStreamNamePrefix is not None:
        raise Invalid("logStreamNames and logStreamNamePrefix are mutually exclusive.")
    return LogQuery(
        names=tuple(body.logStreamNames or ()),
        prefix=body.logStreamNamePrefix or "",
        span=span(body),
        pattern=body.filterPattern or "",
    )


def search_token(query: LogQuery) -> TokenQuery:
    return "FilterLogEvents", query.names, query.prefix, query.span.start, query.span.end, query.pattern


def listing(body: DescribeLogStreams) -> StreamQuery:
    order = StreamOrder(body.orderBy or StreamOrder.NAME)
    if order is StreamOrder.LAST_EVENT and body.logStreamNamePrefix is not None:
        raise Invalid("Cannot order by LastEventTime with a logStreamNamePrefix.")
    return StreamQuery(order=order, descending=bool(body.descending), prefix=body.logStreamNamePrefix or "")


def streams_token(listing: StreamQuery) -> TokenQuery:
    return "DescribeLogStreams", listing.order, listing.descending, listing.prefix


def selects_group(body: DescribeLogGroups, arns: LogArns) -> bool:
    """Whether the request selects the log group of `arns`. Raises Invalid."""
    if body.logGroupNamePrefix is not None and body.logGroupNamePattern is not None:
        raise Invalid("logGroupNamePrefix and logGroupNamePattern are mutually exclusive.")
    named = body.logGroupIdentifiers is None or any(map(arns.names_group, body.logGroupIdentifiers))
    return (
        named
        and body.logGroupClass in {None, "STANDARD"}
        and arns.name.startswith(body.logGroupNamePrefix or "")
        and (body.logGroupNamePattern or "").lower() in arns.name.lower()
    )


# ----------------------------------------------------------------------------------------------------------- responses


def log_events_page(found: LogPage, stream: LogStream) -> Wire:
    """AWS: both tokens are always present; at an end of the stream the token equals that of the request."""
    return {
        "events": [_event(line) for line in found.lines],
        "nextForwardToken": f"f/{_digits(stream, found.end)}",
        "nextBackwardToken": f"b/{_digits(stream, found.start)}",
    }


def found_events(events: Iterable[Event], names: Mapping[str, str]) -> Wire:
    """AWS: `searchedLogStreams` is always empty. `names`: names of streams that are shown instead of their own."""
    found = [
        {
            "logStreamName": names.get(event.stream.name, event.stream.name),
            **_event(event.line),
            "eventId": _digits(event.stream, event.line.position),
        }
        for event in events
    ]
    return {"events": found, "searchedLogStreams": []}


def log_stream(summary: StreamSummary, arns: LogArns) -> Wire:
    name = summary.stream.name
    times = {
        "creationTime": milliseconds(summary.stream.created_at),
        "firstEventTimestamp": _milliseconds(summary.first),
        "lastEventTimestamp": _milliseconds(summary.last),
        "lastIngestionTime": _milliseconds(summary.last),
    }
    known = {member: time for member, time in times.items() if time is not None}
    return {"logStreamName": name, **known, "arn": arns.stream(name), "storedBytes": summary.size}


def log_group(arns: LogArns, *, since: datetime) -> Wire:
    """AWS: `storedBytes` is updated from time to time. Here it is always 0."""
    return {
        "logGroupName": arns.name,
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


def _digits(of: LogStream, position: int) -> str:
    return str(int(of.tag.log_id, 16) * _POSITIONS + position).zfill(56)


# --------------------------------------------------------------------------------------------- positions in page tokens


def search_position(position: LogSearchPosition) -> str:
    return json.dumps([position.after_name, position.until_name, position.after_key])


def parse_search_position(text: str) -> LogSearchPosition:
    """Parse the text of `search_position`."""
    after, until, beyond = json.loads(text)
    return LogSearchPosition(after_name=after, until_name=until, after_key=None if beyond is None else tuple(beyond))


def stream_position(position: StreamPosition) -> str:
    return f"{position.created_at.isoformat()} {position.name}"


def parse_stream_position(text: str) -> StreamPosition:
    """Parse the text of `stream_position`."""
    created_at, _, name = text.partition(" ")
    return StreamPosition(name=name, created_at=datetime.fromisoformat(created_at))
