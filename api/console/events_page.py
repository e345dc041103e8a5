"""The page of events: the newest status changes of jobs, and steps of orders, as they happen."""

from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from batchq.api.console.context import ConsoleContext
from batchq.api.console.job_words import entry_words
from batchq.api.console.pages import Page, PageTable, Visit
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Status
from batchq.ports.history import FeedFilter

PER_PAGE = 100
Word = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=256)]

pages = PageTable()


class EventsQuery(BaseModel):
    """The filters of the events. The values of one filter are alternatives; an event must match all filters."""

    model_config = ConfigDict(frozen=True)

    queue: Annotated[tuple[Word, ...], Field(max_length=100)] = ()
    state: Annotated[tuple[Status, ...], Field(max_length=len(Status))] = ()
    #: Ids; that of an array selects its children too.
    job: Annotated[tuple[Word, ...], Field(max_length=100)] = ()
    #: Only events with a smaller number.
    before: Annotated[int, Field(ge=1, lt=2**53)] | None = None

    def filters(self) -> list[tuple[str, str]]:
        """The filters that are given, as in the query."""
        return [
            *(("queue", it) for it in self.queue),
            *(("state", it.value) for it in self.state),
            *(("job", it) for it in self.job),
        ]


@pages.get("/events")
async def events_page(context: ConsoleContext, visit: Visit[EventsQuery]) -> Page:
    """The newest events of jobs that the caller may see."""
    query, caller = visit.input, visit.caller
    wanted = FeedFilter(
        jobs=frozenset(map(JobId, query.job)),
        queues=frozenset(map(QueueName, query.queue)),
        statuses=frozenset(query.state),
    )
    found, older = await context.events.newest(wanted, before=query.before, limit=PER_PAGE, caller=caller)
    filters = query.filters()
    values = {
        "query": query,
        "filters": filters,
        "events": found,
        "words": entry_words,
        "queues": sorted(context.catalog.queues_of(caller)),
        "statuses": list(Status),
        "older": None if older is None else f"/ui/events?{urlencode([*filters, ('before', older)])}",
        "newest": "/ui/events" + (f"?{urlencode(filters)}" if filters else ""),
    }
    return Page(template="events.html", title="Events", values=values)
