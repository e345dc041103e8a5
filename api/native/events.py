"""ListEvents: the status changes of jobs, one numbered feed that a client follows by long polls."""

from typing import Annotated, cast

from msgspec import Raw, Struct, field
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.http import struct_to_json, while_connected
from batchq.api.native.job_search import bare_name, parse_job_id, parse_status
from batchq.api.operation_table import Call, CallLimit, OperationTable
from batchq.api.stop_orders import HoldChangeAnswer, StopStepAnswer, hold_change_answer, stop_step_answer
from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from batchq.domain.times import milliseconds
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage
from batchq.services.events import EventService

MAX_READERS = 256  # requests of one user that wait at the same time
MAX_WAIT = 20  # seconds
MAX_ENCODED = 1024  # events whose JSON is in memory
MAX_NUMBER = 2**53  # so that every JSON parser keeps it

Names = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=4096)]


class ListEventsQuery(BaseModel):
    """Which events are returned. Lists are separated by commas."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Only events with a higher number; absent: only events from now on.
    after: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None
    #: Seconds to wait for an event if there is none.
    wait: Annotated[int, Field(ge=0, le=MAX_WAIT)] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 500
    #: Ids or ARNs of jobs; that of an array selects its children too.
    jobs: Names | None = None
    #: Names or ARNs of job queues.
    queues: Names | None = None
    #: AWS's statuses, in any case: only events of jobs that entered one of them.
    statuses: Names | None = None


class EventAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job entered a status, an order to stop it has come a step further, or it was held or released."""

    #: The number of the event; numbers ascend, and are never used twice.
    number: int
    #: Milliseconds since 1970.
    at: int
    job_id: str
    job_name: str
    job_queue: str
    user: str
    account: str
    #: The status that the job entered or, with `stopOrder` or `hold`, had at that time.
    status: Status
    #: Why the job has the status; absent if no reason is recorded.
    status_reason: str | None = None
    #: The number of the attempt that the status belongs to; absent before the first attempt.
    attempt: int | None = None
    #: The step of a stop order; absent if the job entered `status`.
    stop_order: StopStepAnswer | None = None
    #: The job was held or released; absent if the job entered `status`.
    hold: HoldChangeAnswer | None = None


class ListEventsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of events. It may be empty although more events follow `next`."""

    #: By number, ascending.
    events: tuple[EventAnswer, ...]
    #: The `after` of the next request.
    next: int
    #: Whether events before these may be missing: they were deleted with their jobs, or the data was restored.
    gap: bool


class EncodedEvents:
    """The JSON of the newest events, which their readers share."""

    def __init__(self) -> None:
        #: By number, in the order of their encoding.
        self._json: dict[int, Raw] = {}

    def answer(self, page: FeedPage) -> ListEventsAnswer:
        """The answer with encoded events."""
        encoded = cast("tuple[EventAnswer, ...]", tuple(map(self._of, page.entries)))  # the encoder copies them
        return ListEventsAnswer(events=encoded, next=page.next, gap=page.gap)

    def _of(self, saved: FeedEntry) -> Raw:
        known = self._json.get(saved.number)
        if known is None:
            known = self._json[saved.number] = Raw(struct_to_json(event_answer(saved)))
            if len(self._json) > MAX_ENCODED:
                del self._json[next(iter(self._json))]
        return known


class EventsContext(Struct, frozen=True, kw_only=True):
    events: EventService
    encoded: EncodedEvents = field(default_factory=EncodedEvents)


operations = OperationTable[EventsContext]()


@operations.add("ListEvents", "GET", "/v1/batchq/events", limit=CallLimit(at_once=MAX_READERS))
async def list_events(context: EventsContext, call: Call[ListEventsQuery]) -> ListEventsAnswer:
    """Returns the status changes of jobs and the orders to stop them, in the order of their commits.

    Without an event it waits for the next ones. A client follows the events by passing `next` as `after` of the next
    request; so it receives every event once, also across restarts of the server. An answer may be empty before `wait`
    is over, when many events were examined. Events of jobs that the caller may not see are left out.
    """
    query, wanted = call.input, to_filter(call.input)
    page = context.events.page(query.after, wanted, limit=query.limit, wait=query.wait, caller=call.caller)
    return context.encoded.answer(await while_connected(call.http, page))


def to_filter(query: ListEventsQuery) -> FeedFilter:
    """Raises Invalid for a malformed job id or status."""
    return FeedFilter(
        jobs=frozenset(map(parse_job_id, _list(query.jobs))),
        queues=frozenset(QueueName(bare_name(it)) for it in _list(query.queues)),
        statuses=frozenset(map(parse_status, _list(query.statuses))),
    )


def event_answer(saved: FeedEntry) -> EventAnswer:
    entry = saved.entry
    return EventAnswer(
        number=saved.number,
        at=milliseconds(entry.at),
        job_id=entry.job_id,
        job_name=saved.job_name,
        job_queue=saved.queue,
        user=saved.owner.user,
        account=saved.owner.account,
        status=entry.status,
        status_reason=entry.reason,
        attempt=entry.attempt,
        stop_order=None if entry.stop is None else stop_step_answer(entry.stop),
        hold=hold_change_answer(entry.hold),
    )


def _list(text: str | None) -> list[str]:
    return [] if text is None else [it for it in text.split(",") if it]
