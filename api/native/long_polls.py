"""What clients follow: ListEvents, the status changes of jobs, and GetJobLog, the lines that a job wrote."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Annotated, cast

from aiohttp import web
from msgspec import Raw
from msgspec.structs import replace
from pydantic import Field

from batchq.api.auth.authentication import is_still_admitted
from batchq.api.http.answers import answer_of
from batchq.api.http.http import (
    REQUEST_ID,
    HttpRefusal,
    InvalidMember,
    RequestQuery,
    Text,
    Word,
    send_stream,
    struct_to_json,
    while_connected,
)
from batchq.api.native.job_selection import bare_name, parse_job_id, parse_status
from batchq.api.operations.operation_table import OperationTable, missing_is_404
from batchq.api.operations.operations import JOB, Call, CallLimit
from batchq.api.operations.parts import Parts
from batchq.api.stop_shapes import history_entry_answer
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import GroupId, JobId, QueueName
from batchq.errors import Unavailable
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage
from batchq.ports.responses.records import EventResponse, GetJobLogResponse, ListEventsResponse, LogLineResponse
from batchq.services.job_log import BEGINNING, JobLogPage, JobLogQuery, LogPosition

log = logging.getLogger(__name__)

MAX_READERS = 256  # requests of one user that wait at the same time
MAX_WAIT = 20  # seconds
MAX_ENCODED = 1024  # events whose JSON is in memory
MAX_NUMBER = 2**53  # so that every JSON parser keeps it
EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"
MAX_PAGE = 1000  # events
CHECK_INTERVAL = 15.0  # seconds between two checks of a stream's caller; one without events sends a comment then
GAP, BYE = b"event: gap\ndata: {}\n\n", b"event: bye\ndata: {}\n\n"
COMMENT = b":\n\n"
MAX_FRAMES = 64  # parts of streams that their readers share

Names = Annotated[Text, Field(min_length=1, max_length=4096)]


class ListEventsQuery(RequestQuery):
    """Which events are returned. Lists are separated by commas."""

    #: Only events with a higher number; absent: only events from now on.
    after: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None
    #: Seconds to wait for an event if there is none.
    wait: Annotated[int, Field(ge=0, le=MAX_WAIT)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 500
    #: Ids or ARNs of jobs; that of an array selects its children too.
    jobs: Names | None = None
    #: Ids of groups: events of their jobs, and of their ends.
    groups: Names | None = None
    #: Names or ARNs of job queues.
    job_queues: Names | None = None
    #: AWS's statuses, in any case: only events of jobs that entered one of them.
    job_statuses: Names | None = None


class EncodedEvents:
    """The JSON of the newest events, which their readers share."""

    def __init__(self) -> None:
        #: By number, in the order of their encoding.
        self._json: dict[int, Raw] = {}
        #: Parts of streams by filter and numbers, in the order of their encoding.
        self._frames: dict[tuple[FeedFilter, int, int], bytes] = {}

    def answer(self, page: FeedPage) -> ListEventsResponse:
        """The answer with encoded events."""
        encoded = cast("tuple[EventResponse, ...]", tuple(map(self._of, page.entries)))  # the encoder copies them
        return ListEventsResponse(events=encoded, next=page.next, gap=page.gap)

    def frame(self, wanted: FeedFilter, after: int, page: FeedPage) -> bytes:
        """The encoded events of a page. Readers with the same filter that continue at the same number share them."""
        key = wanted, after, page.next
        known = self._frames.get(key)
        if known is None:
            known = b"".join(b"id: %d\ndata: %b\n\n" % (entry.number, bytes(self._of(entry))) for entry in page.entries)
            self._frames[key] = known
            if len(self._frames) > MAX_FRAMES:
                del self._frames[next(iter(self._frames))]
        return known

    def _of(self, saved: FeedEntry) -> Raw:
        known = self._json.get(saved.number)
        if known is None:
            known = self._json[saved.number] = Raw(struct_to_json(event_answer(saved)))
            if len(self._json) > MAX_ENCODED:
                del self._json[next(iter(self._json))]
        return known


operations = OperationTable()


@operations.add(
    "ListEvents",
    "GET",
    "/v1/batchq/events",
    Permission.SELF,
    limit=CallLimit(at_once=MAX_READERS),
    answer=ListEventsResponse,
)
async def list_events(parts: Parts, call: Call[ListEventsQuery]) -> ListEventsResponse | web.StreamResponse:
    """Returns the status changes of jobs and the orders to stop them, in the order of their commits.

    Without an event it waits for the next ones. A client follows the events by passing `next` as `after` of the next
    request; so it receives every event once, also across restarts of the server. An answer may be empty before `wait`
    is over, when many events were examined. Events of jobs that the caller may not see are left out.

    With `Accept: text/event-stream` the answer is a stream without end of server-sent events: `id` is the number of an
    event, and `data` the event. `Last-Event-ID` is used in place of `after`; `wait` and `limit` have no effect. The
    event `gap` precedes events before which others may be missing, and `bye` the end of a server.
    """
    query, wanted = call.input, to_filter(call.input)
    if EVENT_STREAM in call.http.headers.get("Accept", ""):
        return await _stream(parts, call, wanted)
    page = parts.events.page(query.after, wanted, limit=query.limit, wait=query.wait, caller=call.caller)
    return parts.state(EncodedEvents).answer(await while_connected(call.http, page))


async def _stream(parts: Parts, call: Call[ListEventsQuery], wanted: FeedFilter) -> web.StreamResponse:
    """Send events until the client disconnects, is no longer admitted, or the server ends."""
    after = _first(call)
    headers = {"x-amzn-RequestId": call.http[REQUEST_ID], "Content-Type": EVENT_STREAM, "Cache-Control": "no-store"}
    response = web.StreamResponse(headers={**headers, "X-Accel-Buffering": "no"})
    frames = _frames(parts, call, wanted, parts.events.last if after is None else after)
    try:
        await send_stream(call.http, response, frames)
    except (ConnectionError, HttpRefusal):
        pass  # the client disconnected, or was disconnected because it read too slowly
    except Unavailable as why:
        log.warning("request %s: the stream ends: %s", call.http[REQUEST_ID], why)
    return response


async def _frames(parts: Parts, call: Call[ListEventsQuery], wanted: FeedFilter, after: int) -> AsyncIterator[bytes]:
    """The frames of a stream that begins after the number `after`. Raises HttpRefusal when the client disconnected."""
    events, loop = parts.events, asyncio.get_running_loop()
    visible = replace(wanted, visibility=call.caller.visibility)
    check_at = loop.time() + CHECK_INTERVAL
    while not events.closed:
        left = check_at - loop.time()
        if left <= 0:
            if not await is_still_admitted(call.http):
                return
            check_at = loop.time() + CHECK_INTERVAL
            continue
        page = await while_connected(
            call.http, events.page(after, wanted, limit=MAX_PAGE, wait=left, caller=call.caller)
        )
        yield (GAP if page.gap else b"") + parts.state(EncodedEvents).frame(visible, after, page) or COMMENT
        after = page.next
    yield BYE


def _first(call: Call[ListEventsQuery]) -> int | None:
    """The number after which a stream begins; None: the newest. Raises InvalidMember for a malformed Last-Event-ID."""
    text = call.http.headers.get(LAST_EVENT_ID)
    if text is None:
        return call.input.after
    # int() refuses texts of more than 4,300 digits.
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(MAX_NUMBER)) or int(text) > MAX_NUMBER:
        raise InvalidMember(f"{LAST_EVENT_ID} is not the number of an event.", member=LAST_EVENT_ID)
    return int(text)


def to_filter(query: ListEventsQuery) -> FeedFilter:
    """Raises Invalid for a malformed job id or status."""
    return FeedFilter(
        jobs=frozenset(map(parse_job_id, _list(query.jobs))),
        groups=frozenset(map(GroupId, _list(query.groups))),
        queues=frozenset(QueueName(bare_name(text)) for text in _list(query.job_queues)),
        statuses=frozenset(map(parse_status, _list(query.job_statuses))),
    )


def event_answer(saved: FeedEntry) -> EventResponse:
    entry = saved.entry
    return answer_of(
        EventResponse,
        history_entry_answer(entry),
        number=saved.number,
        job_id=entry.job_id,
        job_name=saved.job_name,
        job_queue=saved.queue,
        user=saved.owner.user,
        account=saved.owner.account,
        status_reason=entry.reason,
    )


def _list(text: str | None) -> list[str]:
    return [] if text is None else [part for part in text.split(",") if part]


MAX_LINES = 10_000  # at most 1 MiB of them
MAX_TAIL = 10_000  # lines; at most 1 MiB of them
MAX_TIME = 2**43  # milliseconds since 1970: in nanoseconds it fits into 64 bits


class GetJobLogQuery(RequestQuery):
    """Which lines are returned."""

    #: `next` of the answer before; absent: from the beginning of the newest attempt.
    after: Annotated[str, Field(max_length=32)] | None = None
    #: Seconds to wait for a line if there is none.
    wait: Annotated[int, Field(ge=0, le=MAX_WAIT)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_LINES)] = MAX_LINES
    #: Only lines of this attempt, from 1; absent: the newest one, and those that follow it.
    attempt: Annotated[int, Field(ge=1, le=999_999)] | None = None
    #: The name of the container, for a job with several.
    container: Word | None = None
    #: Without `after`: only the last lines.
    tail: Annotated[int, Field(ge=0, le=MAX_TAIL)] | None = None
    #: Without `after`: only lines from this time on, in milliseconds since 1970.
    since: Annotated[int, Field(ge=0, le=MAX_TIME)] | None = None


log_operations = OperationTable(failed=missing_is_404)


@log_operations.add("GetJobLog", "GET", f"{JOB}/log", Permission.SELF, limit=CallLimit(at_once=MAX_READERS))
async def get_job_log(parts: Parts, call: Call[GetJobLogQuery]) -> GetJobLogResponse:
    """Returns the next lines of a job's log, and waits for them.

    Answers at once if there are lines, else within `wait` seconds; also waits for a job that has not started. One
    request returns lines of one container of one attempt. The log of an array is read by child, `ID:INDEX`, and that of
    a multi-node job by node, `ID#NODE`.
    """
    page = parts.job_log.page(job_log_query(call.job_id, call.input), caller=call.caller)
    return _answer(await while_connected(call.http, page))


def job_log_query(job_id: JobId, query: GetJobLogQuery) -> JobLogQuery:
    """Raises Invalid for a malformed position."""
    return JobLogQuery(
        job_id=job_id,
        after=LogPosition.parse(query.after),
        attempt=query.attempt,
        container=query.container,
        tail=query.tail if query.after is None else None,
        since=None if query.since is None else query.since * 1_000_000,
        limit=query.limit,
        wait=query.wait,
    )


def _answer(page: JobLogPage) -> GetJobLogResponse:
    at = page.next
    return GetJobLogResponse(
        lines=tuple(LogLineResponse(at=line.at // 1_000_000, message=line.message) for line in page.lines),
        next=BEGINNING if at is None else str(at),
        over=page.over,
        attempt=None if at is None else at.attempt,
        incomplete=page.incomplete,
    )
