"""GetJobLog: the lines that a job wrote, which a client follows by long polls."""

import re
from http import HTTPStatus
from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.http import while_connected
from batchq.api.native.events import MAX_READERS, MAX_WAIT
from batchq.api.operation_table import JOB, Call, CallLimit, OperationTable
from batchq.domain.ids import JobId
from batchq.errors import Invalid
from batchq.ports.logs import StoredLine
from batchq.services.job_log import JobLogPage, JobLogQuery, JobLogService, LogPosition

MAX_LINES = 10_000  # at most 1 MiB of them
MAX_TAIL = 10_000  # lines; at most 1 MiB of them
MAX_TIME = 2**43  # milliseconds since 1970: in nanoseconds it fits into 64 bits
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
    #: Without `after`: only lines from this time on, in milliseconds since 1970.
    since: Annotated[int, Field(ge=0, le=MAX_TIME)] | None = None


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


operations = OperationTable[JobLogService](not_found=HTTPStatus.NOT_FOUND)


@operations.add("GetJobLog", "GET", f"{JOB}/log", limit=CallLimit(at_once=MAX_READERS))
async def get_job_log(logs: JobLogService, call: Call[GetJobLogQuery]) -> GetJobLogAnswer:
    """Returns the next lines of a job's log, and waits for them.

    Answers at once if there are lines, else within `wait` seconds; also waits for a job that has not started. One
    request returns lines of one container of one attempt. The log of an array is read by child, `ID:INDEX`, and that of
    a multi-node job by node, `ID#NODE`.
    """
    page = logs.page(job_log_query(call.job_id, call.input), caller=call.caller)
    return _answer(await while_connected(call.http, page))


def job_log_query(job_id: JobId, query: GetJobLogQuery) -> JobLogQuery:
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
        since=None if query.since is None else query.since * 1_000_000,
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
