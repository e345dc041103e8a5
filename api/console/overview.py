"""The overview page: queues, capacity, recent failures, and the jobs that have run longest."""

from batchq.api.console.context import ConsoleContext
from batchq.api.console.pages import Page, PageTable, Redirect, Visit

pages = PageTable()


@pages.get("/")
async def overview_page(context: ConsoleContext, visit: Visit[None]) -> Page:
    found = await context.overviews.overview(caller=visit.caller)
    why = await context.explanations.heads([it.queue.name for it in found.queues], caller=visit.caller)
    values = {"overview": found, "why": why}
    return Page(template="overview.html", title="Overview", values=values)


@pages.get("")
async def without_slash(_: ConsoleContext, visit: Visit[None]) -> Redirect:  # noqa: ARG001 - the table passes it
    return Redirect(location="/ui/")
