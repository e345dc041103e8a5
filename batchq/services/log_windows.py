"""Windows of the log of one attempt: the last lines, lines around a position, and the lines that match a search."""

from collections.abc import AsyncIterator, Callable

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.ids import JobId, Tag, child_id, node_id, node_of, stream_name
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.domain.lifecycle.container_rules import is_captured
from batchq.domain.task import DefinitionForm
from batchq.errors import Invalid, NotFound
from batchq.logs.pages import PAGE_BYTES, Span
from batchq.logs.service import CloudWatchLogs, LogQuery, LogSearchPosition
from batchq.ports.logs import LogPage, StoredLine
from batchq.services.job_log import LogFollower, container_names, container_tag, has_run
from batchq.services.log_matches import Matches, MatchGroups

LINES_AROUND = 3  # lines shown before and after a match
AROUND_BYTES = 64 * 1024  # read before a match, and from it on
MAX_PARTS = 100  # children or nodes whose logs are listed
MAX_COUNTED = 16 * 1024 * 1024  # bytes that are read to number lines
MAX_COUNTS = 1024  # logs whose last count is in memory
_COPY_LINES = 10_000  # at most 1 MiB of them: the lines of the whole text that are in memory at once


class JobLog(Struct, frozen=True, kw_only=True):
    """The log of one container of one attempt."""

    job_id: JobId
    #: None for a child that its array has not spawned yet.
    job: Job | None
    #: The first children of an array, or nodes of a multi-node job, whose logs are read one by one; else empty.
    parts: tuple[JobId, ...] = ()
    #: None before the job's first attempt, and for a job with `parts`.
    tag: Tag | None = None
    #: The names of the containers to choose from; empty for a job with one.
    containers: tuple[str, ...] = ()
    #: The name of the container that is read; None: the only one.
    container: str | None = None
    #: Whether the output is stored in batchq.
    captured: bool = True
    #: Whether the attempt may have output.
    has_run: bool = False


class LogPages:
    """Reads parts of the stored log of a job. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, job_logs: LogFollower, logs: CloudWatchLogs) -> None:
        self._job_logs = job_logs
        self._logs = logs
        #: Of logs whose lines were counted last: a position, and the number of lines before it.
        self._counted: dict[Tag, tuple[int, int]] = {}

    async def find(self, job_id: JobId, *, attempt: int | None, container: str | None, caller: Caller) -> JobLog:
        """The log of an attempt, with its new output copied into the archive.

        `attempt`: None: the newest one. `container`: None: the first one. Raises NotFound; Invalid; StoreFailed.
        """
        job = await self._job_logs.visible_job(job_id, caller=caller)
        if job is None:
            return JobLog(job_id=job_id, job=None)
        return await self.of_job(job_id, job, attempt=attempt, container=container)

    async def of_job(self, job_id: JobId, job: Job, *, attempt: int | None, container: str | None) -> JobLog:
        """As `find`, for a `job` that was read before. `job_id`: the id of the job, or of one of its nodes."""
        names = container_names(job_id, job)
        log = JobLog(
            job_id=job_id,
            job=job,
            parts=_parts(job_id, job),
            containers=tuple(names) if len(names) > 1 else (),
            container=container or next(iter(names), None),
        )
        latest = job.latest_attempt
        if log.parts or latest is None:
            return log
        number = attempt or latest.number
        if number > latest.number:
            raise NotFound(f"Job {job_id} has no attempt {number}.")
        tag = container_tag(job_id, job, attempt=number, container=log.container)
        if not is_captured(job, tag):
            return replace(log, tag=tag, captured=False)
        if has_run(job, number):
            await self._logs.copy(tag)
        return replace(log, tag=tag, has_run=has_run(job, number))

    async def last(self, tag: Tag, *, limit: int, before: int | None = None) -> LogPage:
        """The last lines, of the log or before a position. Of all windows: at most `limit` lines and 1 MiB.

        Raises Invalid.
        """
        return await self._logs.tail(tag, limit=limit, before=before)

    async def after(self, tag: Tag, *, position: int, limit: int) -> LogPage:
        """The lines from `position` on. Raises Invalid for a position that is not the beginning of a line."""
        return await self._logs.lines(tag, position=position, limit=limit)

    async def around(self, tag: Tag, *, position: int, before: int, limit: int, max_bytes: int = PAGE_BYTES) -> LogPage:
        """The line at `position`, at most `before` lines before it, and lines after it.

        Half of `max_bytes` is for the lines before, but one is always read. Raises Invalid.
        """
        half = max_bytes // 2
        earlier = await self._logs.tail(tag, limit=before, before=position, max_bytes=half)
        rest = limit - len(earlier.lines)
        later = await self._logs.lines(tag, position=position, limit=rest, max_bytes=half)
        return LogPage(lines=earlier.lines + later.lines, start=earlier.start, end=later.end)

    async def number(self, tag: Tag, *, position: int) -> int | None:
        """The number of the line at a position, from 1; None if more than MAX_COUNTED must be read to count the lines.

        A follower of a log costs only what is new, because the last count of the newest logs is in memory.
        """
        at, lines = self._counted.get(tag, (0, 0))
        if at > position:
            at, lines = 0, 0
        if position - at > MAX_COUNTED:
            return None
        lines += await self._logs.count_lines(tag, start=at, end=position)
        self._counted.pop(tag, None)
        self._counted[tag] = position, lines
        if len(self._counted) > MAX_COUNTS:
            del self._counted[next(iter(self._counted))]
        return lines + 1

    async def search(
        self,
        log: JobLog,
        pattern: str,
        *,
        beyond: int | None,
        limit: int,
        caller: Caller,
        has_disconnected: Callable[[], bool],
    ) -> Matches:
        """Lines that match a filter pattern of CloudWatch, with the lines around them, oldest first.

        The lines of a page have at most PAGE_BYTES together, those around a match included, or one match. `beyond`:
        only lines after the one at this position. Raises Invalid.
        """
        assert log.job is not None
        assert log.tag is not None
        after = LogSearchPosition()
        if beyond is not None:
            after = LogSearchPosition(after_key=((await self._line(log.tag, beyond)).at, log.tag.log_id, beyond))
        name = stream_name(log.job.spec.definition.name, log.tag)
        events, more = await self._logs.filter(
            LogQuery(names=(name,), span=Span(), pattern=pattern),
            position=after,
            limit=limit,
            caller=caller,
            has_disconnected=has_disconnected,
        )
        lines = [event.line for event in events]
        found = MatchGroups(lines)
        for number, line in enumerate(lines):
            if not found.add(await self._around_match(log.tag, line), line):
                return Matches(groups=tuple(found.groups), count=number, compared=lines[number - 1])
        key = None if more is None else more.after_key
        compared = None if key is None else await self._line(log.tag, key[2])
        return Matches(groups=tuple(found.groups), count=len(lines), compared=compared)

    async def _around_match(self, tag: Tag, match: StoredLine) -> LogPage:
        limit, max_bytes = 2 * LINES_AROUND + 1, 2 * AROUND_BYTES
        return await self.around(tag, position=match.position, before=LINES_AROUND, limit=limit, max_bytes=max_bytes)

    async def text(self, tag: Tag) -> AsyncIterator[bytes]:
        """The whole stored log as text, part by part. Output that is written meanwhile is left out."""
        end = (await self._logs.copy(tag)).size
        position = 0
        while position < end:
            page = await self._logs.lines(tag, position=position, limit=_COPY_LINES)
            if not page.lines:
                return
            text = "".join(f"{line.message}\n" for line in page.lines if line.position < end)
            yield text.encode("utf-8", "backslashreplace")
            position = page.end

    async def _line(self, tag: Tag, position: int) -> StoredLine:
        lines = (await self.after(tag, position=position, limit=1)).lines
        if not lines:
            raise Invalid(f"invalid position in the log: {position}")
        return lines[0]


def _parts(job_id: JobId, job: Job) -> tuple[JobId, ...]:
    if is_parent(job):
        return tuple(child_id(job_id, index) for index in range(min(size(job), MAX_PARTS)))
    if job.spec.nodes.form is DefinitionForm.NODES and node_of(job_id)[1] is None:
        return tuple(node_id(job_id, index) for index in range(min(job.spec.nodes.count, MAX_PARTS)))
    return ()
