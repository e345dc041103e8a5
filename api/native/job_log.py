"""GetJobLog: the lines that a job wrote, which a client follows by long polls."""

import re
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, HttpRefusal, query_of, reply, validate
from batchq.api.native.events import MAX_READERS, MAX_WAIT
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission, UserName
from batchq.domain.ids import JobId
from batchq.errors import Invalid, NotFound
from batchq.ports.logs import StoredLine
from batchq.services.job_log import JobLogPage, JobLogQuery, JobLogService, LogPosition
from batchq.throttling import ConcurrencyLimit

NAME = "GetJobLog"
MAX_LINES = 1000
MAX_TAIL = 10_000  # lines; at most 1 MiB of them
_LOG = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}/log"
_POSITION = re.compile(r"([1-9][0-9]{0,5})\.([0-9]{1,18})")
_BEGINNING = "0"  # the token before the first attempt


class GetJobLogQuery(BaseModel):
    """Which lines are returned."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: `next` of the answer before; absent: from the beginning of the newest attempt.
    after: Annotated[str, Field(max_length=32)] | None = None
    #: Seconds to wait for a line if there is none.
    wait: Annotated[int, Field(ge=0, le=MAX_WAIT)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_LINES)] = MAX_LINES
    #: Only lines of this attempt, from 1; absent: the newest one, and those that follow it.
    attempt: Annotated[int, Field(ge=1, le=999_999)] | None = None
    #: The name of the container, for a job with several.
    container: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=256)] | None = None
    #: Without `after`: only the last lines.
    tail: Annotated[int, Field(ge=0, le=MAX_TAIL)] | None = None


class LogLineAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of output."""

    #: Milliseconds since 1970, by the clock of the container engine.
    at: int
    #: The text without the line end.
    message: str


class GetJobLogAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The next lines of a log, all of one attempt."""

    lines: tuple[LogLineAnswer, ...]
    #: The `after` of the next request.
    next: str
    #: Whether no more lines can come.
    over: bool
    #: The number of the attempt; absent before the first one.
    attempt: int | None = None


_DOC = OperationDoc(
    name=NAME,
    summary="Returns the next lines of a job's log, and waits for them.",
    description=(
        "Answers at once if there are lines, else within `wait` seconds; also waits for a job that has not started. "
        "One request returns lines of one container of one attempt. The log of an array is read by child, `ID:INDEX`, "
        "and that of a multi-node job by node, `ID#NODE`."
    ),
    query=GetJobLogQuery,
    answer=GetJobLogAnswer,
)


def dialect(logs: JobLogService) -> Dialect:
    readers = ConcurrencyLimit[UserName](at_once=MAX_READERS, waiting=0)

    async def get_log(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.SELF, NAME)
        query = to_query(JobId(request.match_info["job"]), validate(GetJobLogQuery, query_of(request)))
        try:
            async with readers.of(caller.user):
                page = await logs.page(query, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(_answer(page))

    def mount(app: web.Application) -> None:
        document(app, app.router.add_get(_LOG, get_log), _DOC)

    return mount


def to_query(job_id: JobId, query: GetJobLogQuery) -> JobLogQuery:
    """Raises Invalid for a malformed position."""
    after = query.after
    position = None if after is None or after == _BEGINNING else _POSITION.fullmatch(after)
    if after not in {None, _BEGINNING} and position is None:
        raise Invalid("'after' is not a position of a log.")
    return JobLogQuery(
        job_id=job_id,
        after=None if position is None else LogPosition(attempt=int(position[1]), position=int(position[2])),
        attempt=query.attempt,
        container=query.container,
        tail=query.tail if after is None else None,
        limit=query.limit,
        wait=query.wait,
    )


def _answer(page: JobLogPage) -> GetJobLogAnswer:
    at = page.next
    return GetJobLogAnswer(
        lines=tuple(map(_line, page.lines)),
        next=_BEGINNING if at is None else f"{at.attempt}.{at.position}",
        over=page.over,
        attempt=None if at is None else at.attempt,
    )


def _line(it: StoredLine) -> LogLineAnswer:
    return LogLineAnswer(at=it.at // 1_000_000, message=it.message)
