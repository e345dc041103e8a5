"""The log of one job for followers: line after line, from attempt to attempt."""

import asyncio
import re
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import JobId, Tag, node_id, node_of, parent_of
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle import views
from batchq.domain.lifecycle.arrays import is_parent, size, unspawned_child
from batchq.domain.lifecycle.container_rules import is_captured
from batchq.domain.task import DefinitionForm
from batchq.engine.history_feed import HistoryFeed
from batchq.errors import Invalid, NotFound
from batchq.logs.service import CloudWatchLogs
from batchq.ports.clock import Clock
from batchq.ports.history import FeedFilter
from batchq.ports.jobs import JobStore
from batchq.ports.logs import StoredLine
from batchq.services.job_reads import job_not_found

COPY_PATIENCE = 3.0  # seconds that a reader waits for output from before its request
POLL_INTERVALS = (0.2, 0.4, 0.8, 1.0)  # seconds between reads of a log that does not grow; the last is repeated

BEGINNING = "0"  # the text of the position of a follower before the first attempt
_POSITION = re.compile(r"([1-9][0-9]{0,5})\.([0-9]{1,18})")


class LogPosition(Struct, frozen=True, kw_only=True):
    """Where a follower continues."""

    #: The number of the attempt, from 1.
    attempt: int
    #: Where the next line begins in the log of the attempt.
    position: int

    @classmethod
    def parse(cls, text: str | None) -> "LogPosition | None":
        """The position `ATTEMPT.POSITION`; None for none, and for BEGINNING. Raises Invalid."""
        if text is None or text == BEGINNING:
            return None
        parts = _POSITION.fullmatch(text)
        if parts is None:
            raise Invalid("'after' is not a position of a log.")
        return cls(attempt=int(parts[1]), position=int(parts[2]))

    def __str__(self) -> str:
        return f"{self.attempt}.{self.position}"


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
    #: Whether output from before the request may be missing, because the container engine has not delivered it in time.
    #: Only of a first page that is read without a wait.
    incomplete: bool = False


class LogFollower:
    """Reads logs by job. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, store: JobStore, logs: CloudWatchLogs, feed: HistoryFeed, clock: Clock) -> None:
        self._store = store
        self._logs = logs
        self._feed = feed
        self._clock = clock

    async def page(self, query: JobLogQuery, *, caller: Caller) -> JobLogPage:
        """The next lines: at once if there are any, else within `wait` seconds.

        Waits also for a job that has not started. A reader that neither follows nor continues gets all output from
        before the request, for which it waits COPY_PATIENCE seconds at most. Raises NotFound; Invalid for an array or a
        multi-node job as a whole, for a container or attempt that does not exist, and for a log that is not captured;
        StoreFailed.
        """
        is_complete = query.after is not None or query.wait > 0 or await self._catch_up(query, caller)
        return replace(await self._next_page(query, caller), incomplete=not is_complete)

    async def _catch_up(self, query: JobLogQuery, caller: Caller) -> bool:
        """Copy until all output from before this call is stored. False if the copy does not succeed in time."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        job = await self._find(query.job_id, caller)
        newest = None if job is None else job.latest_attempt
        if job is None or newest is None or not has_run(job, query.attempt or newest.number):
            return True
        tag = container_tag(query.job_id, job, attempt=query.attempt or newest.number, container=query.container)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(began + COPY_PATIENCE):
                while not self._feed.closed:
                    copied = await self._logs.copy(tag)
                    if copied.complete or (copied.until is not None and copied.until >= began):
                        return True
                    await self._clock.sleep(POLL_INTERVALS[0])
        return False

    async def _next_page(self, query: JobLogQuery, caller: Caller) -> JobLogPage:
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
            if job is not None and (
                job.status in FINISHED or query.attempt in {attempt.number for attempt in job.attempts}
            ):
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
        if job is not None and job.spec.nodes.form is DefinitionForm.NODES and node_of(job_id)[1] is None:
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
        if not is_captured(job, tag):
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
    """The names of a job's containers, or of a node's; empty for a job that was submitted as a single container."""
    nodes = job.spec.nodes
    containers = () if nodes.form is DefinitionForm.CONTAINER else nodes.task(node_of(job_id)[1] or 0).containers
    return [container.name for container in containers]


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
    return next((attempt for attempt in job.all_attempts if attempt.number == number), None)


def has_run(job: Job, number: int) -> bool:
    """Whether containers of this attempt may have output: it exists, and is not STARTING."""
    starts = job.status is Status.STARTING and job.attempt is not None and job.attempt.number == number
    return _attempt(job, number) is not None and not starts
