"""The query of the list of jobs, as in its URL, and the paths of lists that differ from it in a member."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

from msgspec import Struct
from pydantic import Field

from batchq.api.console.job_filters import By, JobFilters
from batchq.api.console.job_order import JobSort, SortColumn
from batchq.api.console.job_tabs import current_tab, other_filters
from batchq.api.http.http import Word
from batchq.api.http.page_tokens import PageTokens, TokenQuery, parse_position
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import FINISHED
from batchq.ports.job_search import SearchPosition

MAX_PAGES = 20  # tokens of earlier pages in a URL, so that a page links to the one before it
Token = Annotated[str, Field(max_length=1024)]
Pairs = list[tuple[str, str]]
_SORT = f"^-?({'|'.join(SortColumn)})$"
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f-]{0,27})?(:[0-9]+)?")
#: The columns with a head that sorts by them, in their order; those after the status are sorted downwards first.
COLUMNS = {
    SortColumn.NAME: "Job",
    SortColumn.STATE: "Status",
    SortColumn.QUEUE: "Queue",
    SortColumn.OWNER: "Owner",
    SortColumn.TOOK: "Took",
}


class GroupBy(StrEnum):
    """What the numbers of jobs are counted by."""

    NAME = "name"


class Choice(StrEnum):
    """Which jobs an order is for."""

    ALL = "all"


class JobsQuery(JobFilters):
    """The query of the list of jobs."""

    grouped: GroupBy | None = None
    #: A part of a name, or an id: the page redirects to the list with this filter, or to the job.
    search: Word | None = None
    #: A column, descending with a leading hyphen; None: by `by`, the newest first.
    sort: Annotated[str | None, Field(pattern=_SORT)] = None
    #: Whether all jobs that match are chosen.
    chosen: Choice | None = None
    #: Page tokens: of the second page, and so on until the requested one.
    page: Annotated[tuple[Token, ...], Field(max_length=MAX_PAGES)] = ()

    def view(self, **changes: str | None) -> Pairs:
        """The members that do not select jobs, and that a change of the filters keeps; with these changes."""
        by = None if self.by is By.CREATED else self.by.value
        given = {"by": by, "grouped": self.grouped and self.grouped.value, "sort": self.sort} | changes
        return [(name, value) for name, value in given.items() if value is not None]


class Chip(Struct, frozen=True, kw_only=True):
    """A filter that is given, with a link that removes it."""

    name: str
    #: The value; of a group its name.
    value: str
    #: The path of the list without this filter.
    removed: str


class ColumnHead(Struct, frozen=True, kw_only=True):
    """The head of a column of the list, a link that sorts by the column."""

    title: str
    path: str
    #: `ascending`, `descending`, or empty for a column by which the list is not sorted.
    order: str = ""


def jobs_path(*parts: Pairs) -> str:
    """The path of a list of jobs with these members of the query."""
    pairs = [pair for part in parts for pair in part]
    return f"/ui/jobs?{urlencode(pairs)}" if pairs else "/ui/jobs"


def search_path(query: JobsQuery, text: str) -> str:
    """The page that a search leads to: of a job for an id, else the list with the text as a part of names."""
    if _ID.fullmatch(text):
        return f"/ui/find?{urlencode({'q': text})}"
    others = [pair for pair in query.filters() if pair[0] != "name"]
    return jobs_path(others, [("name", searched_names(text))], query.view())


def searched_names(text: str) -> str:
    """The pattern of the names that a search finds: those with the text as a part, or of a pattern itself."""
    return text if text.startswith("*") or text.endswith("*") else f"*{text}*"


def searched_text(query: JobsQuery) -> str:
    """The text of the search field, from which `search_path` makes the filter by name."""
    name = query.name[0] if len(query.name) == 1 else ""
    part = name[1:-1]
    return part if name == f"*{part}*" and not (part.startswith("*") or part.endswith("*")) else name


def column_heads(query: JobsQuery) -> list[ColumnHead]:
    """The heads of COLUMNS."""
    return [_head(query, column, title) for column, title in COLUMNS.items()]


def _head(query: JobsQuery, column: SortColumn, title: str) -> ColumnHead:
    sort = query.sort and JobSort.parse(query.sort)
    if sort and sort.column is column:
        order, then = ("descending", column.value) if sort.descending else ("ascending", f"-{column}")
    else:
        order, then = "", f"-{column}" if column is SortColumn.TOOK else column.value
    return ColumnHead(title=title, path=jobs_path(query.filters(), query.view(sort=then)), order=order)


def time_heads(query: JobsQuery) -> list[ColumnHead]:
    """The heads of the time of creation and of that of the end, the shown one first. Only finished jobs have ended."""
    by_ended, is_oldest = query.by is By.ENDED, query.sort == SortColumn.CREATED
    order = "descending" if query.sort is None else "ascending" if is_oldest and not by_ended else ""
    created = query.view(by=None, sort="created" if order == "descending" and not by_ended else None)
    heads = [
        ColumnHead(title="Created", path=jobs_path(query.filters(), created), order="" if by_ended else order),
        ColumnHead(
            title="Ended",
            path=jobs_path(query.filters(), query.view(by=By.ENDED.value, sort=None)),
            order=order if by_ended else "",
        ),
    ]
    return heads[::-1] if by_ended else heads


def stop_all_path(query: JobsQuery) -> str | None:
    """The path of the page that stops all jobs of the filters; None if it selects finished jobs, or all jobs."""
    selects_finished = FINISHED & set(query.state) or query.stopped is not None or query.by is By.ENDED
    if not query.narrowed_filters() or selects_finished:
        return None
    return f"/ui/stop?{urlencode(query.filters())}"


def rerun_all_path(query: JobsQuery) -> str | None:
    """The path of the page that submits all finished jobs of the filters again; None if no finished job can match."""
    if not query.narrowed_filters() or (query.state and not FINISHED & set(query.state)):
        return None
    matching = urlencode([*query.filters(), *query.view(grouped=None, sort=None)])
    return f"/ui/rerun?{urlencode({'matching': matching})}"


def chips(query: JobsQuery, group_names: Mapping[str, str]) -> Iterator[Chip]:
    """The filters, without those that the current tab has. `group_names`: of the filtered groups, by their ids."""
    filters = query.filters()
    shown = filters if current_tab(query) in {None, "All"} else other_filters(query)
    for at, (name, value) in enumerate(filters):
        if (name, value) in shown:
            shown_value = group_names.get(value, value) if name == "group" else value
            yield Chip(name=name, value=shown_value, removed=jobs_path(filters[:at] + filters[at + 1 :], query.view()))


def position(query: JobsQuery, tokens: PageTokens, caller: Caller) -> SearchPosition | None:
    """Where the requested page begins; None: the first page. Raises Invalid for a token of another query."""
    if not query.page:
        return None
    return parse_position(tokens.read(token_query(query, caller), query.page[-1]))


def older_path(query: JobsQuery, position: str, tokens: PageTokens, caller: Caller) -> str:
    """The path of the next page, which begins at `position`."""
    token = tokens.make(token_query(query, caller), position)
    pages = [*query.page, token][-MAX_PAGES:]
    return jobs_path(query.filters(), query.view(), [("page", page) for page in pages])


def newer_path(query: JobsQuery) -> str | None:
    """The path of the page before the requested one; None for the first page."""
    if not query.page:
        return None
    return jobs_path(query.filters(), query.view(), [("page", text) for text in query.page[:-1]])


def token_query(query: JobsQuery, caller: Caller) -> TokenQuery:
    """Page tokens are bound to the caller and to everything that selects and sorts jobs."""
    order = query.by.value if query.grouped else f"{query.by.value} {query.sort or ''}"
    return "JobsPage", caller.user, order, *(f"{name}={value}" for name, value in query.filters())
