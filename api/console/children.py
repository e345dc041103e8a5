"""The children of an array: a grid of all of them, ranges of equal statuses, and a page of single children."""

from collections import Counter
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from batchq.api.console.context import ConsoleContext
from batchq.api.console.job_paths import JOB, job_id_of
from batchq.api.console.job_words import job_title
from batchq.api.console.pages import Page, PageAnswer, PageTable, Redirect, Visit
from batchq.api.console.svg import array_grid
from batchq.domain.ids import child_id, job_path
from batchq.domain.job import Job, Status
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.errors import NotFound
from batchq.ports.jobs import ChildQuery

PER_PAGE = 50  # children
MAX_RANGES = 100  # ranges of equal statuses that are listed
Index = Annotated[int, Field(ge=0, le=99_999)] | None
pages = PageTable()


class ChildrenQuery(BaseModel):
    """Which children are listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: None: all that exist.
    state: Status | None = None
    #: Only children with an index below this one.
    before: Index = None
    #: The child whose page is opened.
    index: Index = None


@pages.get(f"{JOB}/children")
async def children_page(context: ConsoleContext, visit: Visit[ChildrenQuery]) -> PageAnswer:
    query, caller, job_id = visit.input, visit.caller, job_id_of(visit.path)
    array = await context.jobs.find(job_id, caller=caller)
    if array is None or not is_parent(array):
        raise NotFound(f"Array {job_id} not found.")
    if query.index is not None and query.index < size(array):
        return Redirect(location=job_path(child_id(array.id, query.index)))
    runs = await context.jobs.child_runs(array.id, caller=caller)
    counts = Counter[Status]()
    for it in runs:
        counts[it.status] += it.end - it.first
    listed = await context.jobs.list_children(_children(array, query), caller=caller)
    children = listed[:PER_PAGE]
    values = {
        "array": array,
        "query": query,
        "size": size(array),
        "counts": [(it, counts[it]) for it in Status if counts[it]],
        "grid": array_grid(runs, size=size(array), job_id=array.id, label="Statuses of the children, by index"),
        "ranges": runs[:MAX_RANGES],
        "more_ranges": len(runs) - MAX_RANGES,
        "children": children,
        "why": await context.explanations.explain(children, caller=caller),
        "stop_all": None,  # the array itself can be stopped
        "older": _older(query, children) if len(listed) > PER_PAGE else None,
    }
    return Page(template="children.html", title=f"Children of {job_title(array)}", values=values)


def _children(array: Job, query: ChildrenQuery) -> ChildQuery:
    """One child more than a page has. The order of a child is that of its array and its index."""
    before = None if query.before is None else array.order + 1 + query.before
    return ChildQuery(parent=array.id, status=query.state, limit=PER_PAGE + 1, before=before)


def _older(query: ChildrenQuery, children: tuple[Job, ...]) -> str:
    """The query of the next page."""
    child = children[-1].child
    assert child is not None, "the store lists children"
    state = {} if query.state is None else {"state": query.state.value}
    return urlencode(state | {"before": child.index})
