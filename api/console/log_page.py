"""The log of a job: a page of its lines, which follows the output; a search in all of it; and the whole as a download.

The script follows a log whose list has `data-follow`, by requests for the fragment `lines` with `after` (`data-next` of
the list) and `wait`; each is answered once there are further lines, or after the wait with an empty list. `data-over`
is true once no more lines can come.
"""

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from aiohttp import web
from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.console.job_words import JOB, NODE, job_crumbs, job_id_of, job_title
from batchq.api.console.log_colours import ColourBudget, cut, marked, plain
from batchq.api.console.pages import FRAGMENT, HEADERS, Page, PageTable
from batchq.api.console.safe_html import safe_html, shown_text
from batchq.api.http.http import REQUEST_ID, send_stream, while_connected
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain import wording
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import JobId, Tag, job_path
from batchq.errors import Invalid, Unavailable
from batchq.ports.logs import LogPage, StoredLine
from batchq.services.job_log import BEGINNING, JobLogPage, JobLogQuery, LogPosition
from batchq.services.log_windows import JobLog

MAX_LINES = 2000  # of a page
LINES_BEFORE = 100  # lines shown before the line that a link leads to
MAX_MATCHES = 100  # lines that a page of a search finds
MAX_WAIT = 20  # seconds
FOLDED_CHARACTERS = 4096  # longer lines are folded, and still longer ones are cut
_SUMMARY_CHARACTERS = 200  # of a folded line that are always shown
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Position = Annotated[int, Field(ge=0, lt=10**18)] | None

logger = logging.getLogger(__name__)
pages = PageTable()


class Times(StrEnum):
    """Which times are shown beside the lines."""

    OFF = "off"
    #: Of the clock; the script shows them in the reader's time zone.
    LOCAL = "local"
    #: Since the attempt began to run.
    SINCE = "since"


class LogPageQuery(BaseModel):
    """Which lines a page of a log shows."""

    model_config = ConfigDict(frozen=True)

    #: From 1; absent: the newest attempt.
    attempt: Annotated[int, Field(ge=1, le=999_999)] | None = None
    container: Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=256)] | None = None
    #: The page has this line, and lines around it.
    at: Position = None
    #: The page ends before this line.
    before: Position = None
    #: The page begins with this line: ATTEMPT.POSITION.
    after: Annotated[str, Field(max_length=32)] | None = None
    #: Without a position: how many lines there are at most, the last ones.
    tail: Annotated[int, Field(ge=1, le=MAX_LINES)] = 200
    #: With a position: how many lines there are at most.
    limit: Annotated[int, Field(ge=1, le=MAX_LINES)] = 200
    #: Seconds to wait for a line, of a request for the fragment.
    wait: Annotated[int, Field(ge=0, le=MAX_WAIT)] = 0
    #: Words to search for, as a filter pattern of CloudWatch.
    q: Annotated[str, Field(max_length=1024)] | None = None
    #: Of a search: only lines after the one at this position.
    beyond: Position = None
    times: Times = Times.OFF
    wrap: bool = True


class ShownLine(Struct, frozen=True, kw_only=True):
    """A line of output as the page shows it."""

    position: int
    #: The time that is shown; empty: none.
    time: str
    #: The same time for the attribute `datetime`; empty for a duration.
    iso: str
    html: Markup
    #: The beginning of a line that is folded; empty for others.
    summary: str = ""
    #: Characters.
    size: int

    def item(self, here: Markup, number: int | None) -> Markup:
        """The line as an item of a list. A macro of Jinja would cost six times as much, for 1,000 lines on a page.

        `here`: the path of the page, with its query. `number`: of the line; None: not known.
        """
        link = f'<a class="line" href="{here}&amp;at={self.position}#L{self.position}">{number or "#"}</a>'
        time = shown_text(self.time)
        if self.iso:
            link += f'<time datetime="{shown_text(self.iso)}">{time}</time>'
        elif time:
            link += f'<span class="note">{time}</span>'
        code = f"<code>{self.html}</code>"
        if self.summary:
            words = f"{shown_text(self.summary)}… ({wording.number(self.size)} characters)"
            code = f"<details><summary>{words}</summary>{code}</details>"
        return safe_html(f'<li id="L{self.position}">{link}{code}</li>')


@pages.get(f"{JOB}/log", Permission.SELF)
@pages.get(f"{NODE}/log", Permission.SELF)
async def log_page(parts: Parts, visit: Call[LogPageQuery]) -> Page:
    """The log of a job, of a child of an array or of a node."""
    return await _page(parts, visit, job_id_of(visit.path))


@pages.get(f"{JOB}/log/text", Permission.SELF)
@pages.get(f"{NODE}/log/text", Permission.SELF)
async def log_text(parts: Parts, visit: Call[LogPageQuery]) -> web.StreamResponse:
    return await _text(parts, visit, job_id_of(visit.path))


async def _page(parts: Parts, visit: Call[LogPageQuery], job_id: JobId) -> Page:
    query, after = visit.input, LogPosition.parse(visit.input.after)
    follows = visit.http.headers.get(FRAGMENT) == "lines" and query.after is not None
    attempt = query.attempt if follows or after is None else after.attempt
    log = await parts.log_windows.find(job_id, attempt=attempt, container=query.container, caller=visit.caller)
    if follows:
        page = await while_connected(visit.http, parts.job_log.page(_next_lines(query, log), caller=visit.caller))
        return _followed(query, log, page, first=await _first_number(parts, log, page))
    if log.tag is None or not log.has_run:
        return _rendered(query, log)
    if query.q:
        found = await parts.log_windows.search(
            log,
            query.q,
            beyond=query.beyond,
            limit=MAX_MATCHES,
            caller=visit.caller,
            has_disconnected=lambda: visit.http.transport is None,
        )
        return _rendered(query, log, found=found)
    window = await _window(parts, query, log.tag)
    newest = await parts.log_windows.last(log.tag, limit=1)
    first = await parts.log_windows.number(log.tag, position=window.start)
    return _windowed(query, log, window, first=first, is_end=window.end >= newest.end)


async def _text(parts: Parts, visit: Call[LogPageQuery], job_id: JobId) -> web.StreamResponse:
    """The whole log as a file. Its name is made of the id, the attempt and the container."""
    query = visit.input
    log = await parts.log_windows.find(job_id, attempt=query.attempt, container=query.container, caller=visit.caller)
    if log.tag is None or not log.has_run:
        raise Invalid(empty_sentence(log))
    name = re.sub(r"[^0-9A-Za-z_.-]", "-", f"{log.tag}") + ".log"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    response = web.StreamResponse(headers=headers)
    response.content_type, response.charset = "text/plain", "utf-8"
    try:
        await send_stream(visit.http, response, parts.log_windows.text(log.tag))
    except ConnectionError:  # the client disconnected
        pass
    except Unavailable as why:
        logger.warning("request %s: the download of a log is cut off: %s", visit.http[REQUEST_ID], why)
        if visit.http.transport is not None:  # without this the client would take the part for the whole
            visit.http.transport.abort()
    return response


async def _window(parts: Parts, query: LogPageQuery, tag: Tag) -> LogPage:
    if query.at is not None:
        before = min(LINES_BEFORE, query.limit - 1)
        return await parts.log_windows.around(tag, position=query.at, before=before, limit=query.limit)
    if query.before is not None:
        return await parts.log_windows.last(tag, limit=query.limit, before=query.before)
    after = LogPosition.parse(query.after)
    if after is not None:
        return await parts.log_windows.after(tag, position=after.position, limit=query.limit)
    return await parts.log_windows.last(tag, limit=query.tail)


def _next_lines(query: LogPageQuery, log: JobLog) -> JobLogQuery:
    return JobLogQuery(
        job_id=log.job_id,
        after=LogPosition.parse(query.after),
        attempt=query.attempt,
        container=log.container,
        limit=MAX_LINES,
        wait=query.wait,
    )


async def _first_number(parts: Parts, log: JobLog, page: JobLogPage) -> int | None:
    """The number of the page's first line; None if it is not known."""
    if not page.lines or page.next is None or log.tag is None:
        return None
    tag = replace(log.tag, attempt=page.next.attempt)
    return await parts.log_windows.number(tag, position=page.lines[0].position)


# -------------------------------------------------------------------------------------------------------- what is shown


def _windowed(query: LogPageQuery, log: JobLog, window: LogPage, *, first: int | None, is_end: bool) -> Page:
    assert log.tag is not None
    return _rendered(
        query,
        log,
        lines=window.lines,
        first=first,
        next=f"{log.tag.attempt}.{window.end}" if is_end and query.at is None else None,
        older=window.start or None,
        newer=None if is_end else window.end,
    )


def _followed(query: LogPageQuery, log: JobLog, page: JobLogPage, *, first: int | None) -> Page:
    """The list of the next lines, for the script."""
    at = page.next
    return _rendered(
        query,
        log,
        template="log_lines.html",
        lines=page.lines,
        first=first,
        attempt=None if at is None else at.attempt,
        next=BEGINNING if at is None else str(at),
        over=page.over,
    )


def _rendered(
    query: LogPageQuery, log: JobLog, *, attempt: int | None = None, template: str = "log.html", **values: object
) -> Page:
    number = log.tag.attempt if log.tag is not None and attempt is None else attempt
    job = log.job
    attempts = () if job is None else job.all_attempts
    name = str(log.job_id) if job is None else job_title(replace(job, id=log.job_id))
    started = next((each.started_at for each in attempts if each.number == number), None)
    colours = ColourBudget()
    return Page(
        template=template,
        title=f"Log of {name}",
        values={
            "log": log,
            "job": job,
            "query": query,
            "attempt": number,
            "shown": lambda line, is_found=False: _shown(
                line, query.times, started, marked if is_found else colours.coloured
            ),
            "clock": lambda line: _clock(_time_of(line) or _EPOCH),
            "empty": empty_sentence(log),
            "link": partial(_link, query, log, number),
            "crumbs": _crumbs(log, name, attempt=query.attempt),
            "here": shown_text(f"{job_path(log.job_id)}/log?{_link(query, log, number)}"),
            "lines": (),
            "found": None,
            "first": None,
            "older": None,
            "newer": None,
            "next": BEGINNING if query.attempt is None and log.captured and not log.parts else None,
            "over": False,
        }
        | values,
    )


def _crumbs(log: JobLog, name: str, *, attempt: int | None) -> list[tuple[str, str]]:
    """The job above its log; above the log of an attempt that was chosen also the log of the job."""
    path, whole = job_path(log.job_id), name if log.job is None else log.job.spec.name
    below = [(name, path), *([("Log", f"{path}/log")] if attempt is not None else ())]
    return job_crumbs(log.job_id, whole, *below)


def _link(query: LogPageQuery, log: JobLog, attempt: int | None, /, **changes: object) -> str:
    """The query of the same log with other parameters."""
    kept = {
        "attempt": attempt,
        "container": log.container if log.containers else None,
        "times": None if query.times is Times.OFF else query.times.value,
        "wrap": None if query.wrap else "no",
    }
    return urlencode({name: value for name, value in (kept | changes).items() if value is not None})


def empty_sentence(log: JobLog) -> str:
    """The sentence of a page without lines."""
    if log.job is None or log.tag is None:
        return "The job has not started. Its output appears here once it writes any."
    if not log.captured:
        return "The log driver of the job does not store its output in batchq."
    if log.tag.attempt in {attempt.number for attempt in log.job.attempts}:
        return f"Attempt {log.tag.attempt} wrote no output."
    return "The output appears here once the job writes any."


def _shown(line: StoredLine, times: Times, started: datetime | None, render: Callable[[str], Markup]) -> ShownLine:
    visible = cut(line.message)
    is_folded = len(visible) > FOLDED_CHARACTERS
    time, iso = _times(_time_of(line), times, started)
    return ShownLine(
        position=line.position,
        time=time,
        iso=iso,
        html=render(visible),
        summary=plain(visible[:_SUMMARY_CHARACTERS]) if is_folded else "",
        size=len(line.message),
    )


def _times(at: datetime | None, times: Times, started: datetime | None) -> tuple[str, str]:
    """The time of a line that is shown, and the same for the attribute `datetime`; each may be empty."""
    if at is None or times is Times.OFF:
        return "", ""
    if times is Times.SINCE:
        return "" if started is None else _duration(at - started), ""
    return _clock(at), f"{at.isoformat('T', 'milliseconds')[:-6]}Z"


def _time_of(line: StoredLine) -> datetime | None:
    """None for a damaged line."""
    return _EPOCH + timedelta(microseconds=line.at // 1000) if line.at else None


def _clock(at: datetime) -> str:
    return f"{at.isoformat(' ', 'milliseconds')[:-6]} UTC"


def _duration(length: timedelta) -> str:
    """As `+1:02:03.456`. A line may be a moment older than the start that the container engine reports."""
    minutes, rest = divmod(max(0, length // timedelta(milliseconds=1)), 60_000)
    return f"+{minutes // 60}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}"
