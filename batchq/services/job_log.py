"""The log of one job: for followers line after line, from attempt to attempt; and in windows of one attempt."""

import asyncio
from collections.abc import AsyncIterator, Callable

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.ids import JobId, Tag, child_id, node_id, node_of, parent_of, stream_name
from batchq.domain.job import FINISHED, Attempt, Job, Status
from batchq.domain.lifecycle import views
from batchq.domain.lifecycle.arrays import is_parent, size, unspawned_child
from batchq.domain.lifecycle.container_rules import keys, spec_of
from batchq.engine.history_feed import HistoryFeed
from batchq.errors import Invalid, NotFound
from batchq.logs.pages import PAGE_BYTES, Span
from batchq.logs.service import LogQuery, LogSearchPosition, LogService
from batchq.ports.clock import Clock
from batchq.ports.history import FeedFilter
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogPage, StoredLine
from batchq.services.job_reads import job_not_found
from batchq.services.log_matches import Matches, MatchGroups

POLL_INTERVALS = (0.2, 0.4, 0.8, 1.0)  # seconds between reads of a log that does not grow; the last is repeated
LINES_AROUND = 3  # lines shown before and after a match
AROUND_BYTES = 64 * 1024  # read before a match, and from it on
MAX_PARTS = 100  # children or nodes whose logs are listed
MAX_COUNTED = 16 * 1024 * 1024  # bytes that are read to number lines
MAX_COUNTS = 1024  # logs whose last count is in memory
_COPY_LINES = 10_000  # at most 1 MiB of them: the lines of the whole text that are in memory at once


class LogPosition(Struct, frozen=True, kw_only=True):
    """Where a follower continues."""

    #: The number of the attempt, from 1.
    attempt: int
    #: Where the next line begins in the log of the attempt.
    position: int


class JobLogQuery(Struct, frozen=True, kw_only=True):
    """A request for the next lines of a job's log."""

    #: A job, a child `ID:INDEX` or a node `ID#NODE`.
    job_id: JobId
    #: None: from the beginning, or from the last `tail` lines.
    after: LogPosition | None = None
    #: Only this attempt; None: the newest attempt, and those that follow it.
    attempt: int | None = None
    #: The name of a container of the job's task; None: the only one.
    container: str | None = None
    #: How many of the stored lines a follower without a position gets at most; None: all.
    tail: int | None = None
    #: The time of the first line for a follower without a position, in nanoseconds since the epoch; None: any.
    since: int | None = None
    limit: int
    #: Seconds.
    wait: float


class JobLogPage(Struct, frozen=True, kw_only=True):
    """The next lines of a job's log, all of one attempt."""

    lines: tuple[StoredLine, ...]
    #: Where the next page begins; None before the first attempt.
    next: LogPosition | None
    #: Whether no more lines can come.
    over: bool


class JobLogService:
    """Reads logs by job. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, store: JobStore, logs: LogService, feed: HistoryFeed, clock: Clock) -> None:
        self._store = store
        self._logs = logs
        self._feed = feed
        self._clock = clock

    async def page(self, query: JobLogQuery, *, caller: Caller) -> JobLogPage:
        """The next lines: at once if there are any, else within `wait` seconds.

        Waits also for a job that has not started. Raises NotFound; Invalid for an array or a multi-node job as a
        whole, for a container or attempt that does not exist, and for a log that is not captured; StoreFailed.
        """
        deadline = asyncio.get_running_loop().time() + query.wait
        at, seen = query.after, self._feed.last
        wanted = FeedFilter(jobs=frozenset({node_of(query.job_id)[0]}))
        while True:
            job = await self._find(query.job_id, caller)
            at = await self._start(query, job, at) if job is not None else at
            if job is not None and at is not None and has_run(job, at.attempt):
                page = await self._read(query, job, at, deadline=deadline, caller=caller)
                if page is not None:
                    return page
                if query.attempt is None and _attempt(job, at.attempt + 1) is not None:
                    at = LogPosition(attempt=at.attempt + 1, position=0)
                    continue
            if job is not None and (job.status in FINISHED or query.attempt in {it.number for it in job.attempts}):
                return JobLogPage(lines=(), next=at, over=True)
            changed = await self._feed.next_change(seen, wanted, deadline=deadline, reader=caller.user)
            if changed is None:
                return JobLogPage(lines=(), next=at, over=False)
            seen = changed

    async def _find(self, job_id: JobId, caller: Caller) -> Job | None:
        """The job; None for a child that its array has not spawned yet. Raises NotFound; Invalid."""
        job = await self.visible_job(job_id, caller=caller)
        if job is not None and is_parent(job):
            raise Invalid(f"Job {job_id} is an array: read the log of a child, {job_id}:0 to {job_id}:{size(job) - 1}.")
        if job is not None and job.spec.nodes is not None and node_of(job_id)[1] is None:
            last = job.spec.nodes.count - 1
            raise Invalid(f"Job {job_id} has several nodes: read the log of one, {job_id}#0 to {job_id}#{last}.")
        return job

    async def visible_job(self, job_id: JobId, *, caller: Caller) -> Job | None:
        """The job of a job's, child's or node's id; None for a child that is not spawned yet. Raises NotFound."""
        whole, node = node_of(job_id)
        child = parent_of(whole)
        ids = [whole] if child is None else [whole, child[0]]
        found = await self._store.jobs(ids, visibility=caller.visibility)
        job = found.get(whole)
        if job is None:
            array = None if child is None else found.get(child[0])
            if array is None or unspawned_child(array, whole) is None:
                raise job_not_found(whole, array)
            return None
        if node is not None and not (views.node_exists(job, node) and node_id(whole, node) == job_id):
            raise NotFound(f"Job {job_id} not found.")
        return job

    async def _start(self, query: JobLogQuery, job: Job, at: LogPosition | None) -> LogPosition | None:
        """Where a follower without a position begins; None before the first attempt."""
        if at is not None:
            return at
        newest = job.latest_attempt
        number = query.attempt or (None if newest is None else newest.number)
        if number is None:
            return None
        at = LogPosition(attempt=number, position=0)
        if (query.tail is None and query.since is None) or not has_run(job, number):
            return at
        tag = container_tag(query.job_id, job, attempt=number, container=query.container)
        await self._logs.copy(tag)
        last = 0 if query.tail is None else await self._logs.last_lines(tag, limit=query.tail)
        recent = 0 if query.since is None else await self._logs.lines_since(tag, at=query.since)
        return replace(at, position=max(last, recent))

    async def _read(
        self, query: JobLogQuery, job: Job, at: LogPosition, *, deadline: float, caller: Caller
    ) -> JobLogPage | None:
        """The next lines of one attempt, or an empty page after the deadline; None if the attempt has no more lines."""
        loop = asyncio.get_running_loop()
        tag = container_tag(query.job_id, job, attempt=at.attempt, container=query.container)
        if not spec_of(job, tag).logging.captured:
            raise Invalid(f"The log driver of job {query.job_id} does not store its output in batchq.")
        size_read, polls = None, 0
        while True:
            copied = await self._logs.copy(tag)
            if copied.job is None or not caller.reaches(copied.job.spec.owner):
                raise NotFound(f"Job {query.job_id} not found.")
            if copied.size != size_read or copied.complete:
                page = await self._logs.lines(tag, position=at.position, limit=query.limit)
                size_read = copied.size
                if page.lines:
                    return JobLogPage(lines=page.lines, next=replace(at, position=page.end), over=False)
            if copied.complete:
                return None
            pause = POLL_INTERVALS[min(polls, len(POLL_INTERVALS) - 1)]
            if loop.time() + pause > deadline or self._feed.closed:
                return JobLogPage(lines=(), next=at, over=False)
            with self._logs.followed():
                await self._clock.sleep(pause)
            polls += 1


def container_names(job_id: JobId, job: Job) -> list[str]:
    """The names of the containers of a job's task, or of a node's; empty for a job with one container and no task."""
    node = str(node_of(job_id)[1] or 0)
    has_task = job.spec.task is not None or job.spec.nodes is not None
    return [name for number, _, name in (key.partition("/") for key in keys(job)) if number == node] if has_task else []


def container_tag(job_id: JobId, job: Job, *, attempt: int, container: str | None) -> Tag:
    """The container that is read. Raises Invalid without a `container` that selects one."""
    tag = Tag(job_id=job.id, attempt=attempt)
    names = container_names(job_id, job)
    if not names:
        if container not in {None, tag.container}:
            raise Invalid(f"Job {job_id} has one container, and none with the name {container!r}.")
        return tag
    if container is None and len(names) > 1:
        raise Invalid(f"Job {job_id} has several containers: name one of {', '.join(names)}.")
    name = names[0] if container is None else container
    if name not in names:
        raise Invalid(f"Job {job_id} has no container {name!r}, only {', '.join(names)}.")
    return replace(tag, container_key=f"{node_of(job_id)[1] or 0}/{name}")


def _attempt(job: Job, number: int) -> Attempt | None:
    return next((it for it in job.all_attempts if it.number == number), None)


def has_run(job: Job, number: int) -> bool:
    """Whether containers of this attempt may have output: it exists, and is not STARTING."""
    starts = job.status is Status.STARTING and job.attempt is not None and job.attempt.number == number
    return _attempt(job, number) is not None and not starts


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


class LogWindowService:
    """Reads parts of the stored log of a job. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, job_logs: JobLogService, logs: LogService) -> None:
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
        if not spec_of(job, tag).logging.captured:
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
        lines = [it.line for it in events]
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
            text = "".join(f"{it.message}\n" for it in page.lines if it.position < end)
            yield text.encode("utf-8", "backslashreplace")
            position = page.end

    async def _line(self, tag: Tag, position: int) -> StoredLine:
        lines = (await self.after(tag, position=position, limit=1)).lines
        if not lines:
            raise Invalid(f"invalid position in the log: {position}")
        return lines[0]


def _parts(job_id: JobId, job: Job) -> tuple[JobId, ...]:
    if is_parent(job):
        return tuple(child_id(job_id, it) for it in range(min(size(job), MAX_PARTS)))
    if job.spec.nodes is not None and node_of(job_id)[1] is None:
        return tuple(node_id(job_id, it) for it in range(min(job.spec.nodes.count, MAX_PARTS)))
    return ()
