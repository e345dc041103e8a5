"""Copies new output of running containers into the archive before a client reads it.

All followers of a log share its copies: 100 followers of one log cost one copy.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_rules import is_captured
from batchq.errors import RuntimeUnknown, StoreFailed
from batchq.logs.capture import LogCapture
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogArchive, LogStream
from batchq.ports.runtime import ContainerRuntime

log = logging.getLogger(__name__)
MAX_CONCURRENT_COPIES = 8  # containers whose output is copied concurrently
MAX_WITHOUT_SURVEY = 8  # with more containers than this, a survey first finds out which of them still exist
COPY_INTERVAL = timedelta(milliseconds=200)  # the shortest time between two copies of a running container's output
LATE_OUTPUT_PERIOD = timedelta(minutes=10)  # after the end of an attempt; until then its container may still exist
READ_TIMEOUT = 3.0  # seconds that readers wait for one call of the container engine


class SharedRead(Struct, frozen=True, kw_only=True):
    """A call of the container engine that several readers wait for."""

    #: Its result: whether the call succeeded.
    task: asyncio.Task[bool]
    #: When the call began, by the event loop's clock, in seconds.
    since: float


class LogCopier:
    """Copies output on behalf of readers. Readers wait a limited time; a slower copy continues without them."""

    def __init__(self, *, store: JobStore, runtime: ContainerRuntime, capture: LogCapture, clock: Clock) -> None:
        self._store = store
        self._runtime = runtime
        self._capture = capture
        self._clock = clock
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_COPIES)
        self._running: dict[Hashable, SharedRead] = {}
        self._existing: frozenset[Tag] = frozenset()

    async def copy_new(self, streams: Sequence[LogStream]) -> int | None:
        """Copy the new output of the streams' containers. If that fails, readers see only what is stored.

        The containers are not copied at the same instant, so newer lines of one may be stored while older lines of
        another are not. Returns the time until which all output of all of them is stored, in nanoseconds since the
        epoch; None if there is no such time.
        """
        growing = await self._growing(streams)
        if len(growing) > MAX_WITHOUT_SURVEY:
            await self._wait([self._shared("survey", self._survey)])
            growing = {tag: max_age for tag, max_age in growing.items() if tag in self._existing}
        await self._wait([self._shared(copy, partial(self._copy, *copy)) for copy in growing.items()])
        return await self._capture.complete_until(growing)

    async def copy_one(self, job: Job, tag: Tag) -> float | None:
        """Copy the new output of one container of a job.

        Returns the time by the event loop's clock until which all of its output is stored; None if the copy failed or
        is late. A container that cannot exist any more has no new output.
        """
        now = asyncio.get_running_loop().time()
        if not is_captured(job, tag):
            return now
        if not runs(job, tag) and not _ended_recently(job, tag, self._clock.now()):
            return now
        copy = (tag, timedelta(0))
        read = self._shared(copy, partial(self._copy, *copy))
        await self._wait([read])
        return read.since if read.task.done() and read.task.result() else None

    async def close(self) -> None:
        """Cancel the copies under way. Output that is not stored yet can still be copied later."""
        tasks = [read.task for read in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _growing(self, streams: Sequence[LogStream]) -> dict[Tag, timedelta]:
        """The containers that may still have output to copy, each with the greatest age of a copy that suffices.

        Jobs whose log driver sends the output elsewhere are omitted. The age is zero for an attempt that has ended:
        its output is complete, and a copy from before its end may lack the last lines.
        """
        jobs = await self._store.jobs([stream.tag.job_id for stream in streams])
        now = self._clock.now()
        growing = {}
        for tag in (stream.tag for stream in streams):
            job = jobs.get(tag.job_id)
            if job is None or not is_captured(job, tag):
                continue
            if runs(job, tag):
                growing[tag] = COPY_INTERVAL
            elif _ended_recently(job, tag, now):
                growing[tag] = timedelta(0)
        return growing

    async def _survey(self) -> bool:
        try:
            self._existing = frozenset(found.tag for found in await self._runtime.survey())
        except RuntimeUnknown as unknown:
            log.info("log readers see stored output only: %s", unknown)
            return False
        return True

    async def _copy(self, tag: Tag, max_age: timedelta) -> bool:
        """Copy new output. Returns False if that failed."""
        async with self._semaphore:
            try:
                await self._capture.copy_new(tag, max_age=max_age)
            except RuntimeUnknown as unknown:
                log.info("container %s: log readers see stored output only: %s", tag, unknown)
            except StoreFailed as failure:
                log.warning("container %s: output could not be stored for a reader: %s", tag, failure)
            else:
                return True
        return False

    def _shared(self, key: Hashable, work: Callable[[], Coroutine[None, None, bool]]) -> SharedRead:
        """The call with this key that is under way, or a new one: concurrent readers share one call."""
        if key not in self._running:
            task = asyncio.create_task(work(), name=f"log copy {key}")
            self._running[key] = SharedRead(task=task, since=asyncio.get_running_loop().time())
            task.add_done_callback(lambda _: self._running.pop(key))
        return self._running[key]

    async def _wait(self, reads: Sequence[SharedRead]) -> None:
        """Wait until all calls have ended, or until READ_TIMEOUT after the latest of them began.

        The time counts from the beginning of a call, not of this wait: a late reader does not wait for a call that
        has already timed out for others.
        """
        if not reads:
            return
        timeout = max(read.since for read in reads) + READ_TIMEOUT - asyncio.get_running_loop().time()
        done, late = await asyncio.wait([read.task for read in reads], timeout=max(timeout, 0))
        if late and timeout > 0:
            log.warning(
                "log readers see stored output only: no response in time to %s", [task.get_name() for task in late]
            )
        for task in done:
            task.result()


def runs(job: Job, tag: Tag) -> bool:
    return job.attempt is not None and job.attempt.number == tag.attempt


def _ended_recently(job: Job, tag: Tag, now: datetime) -> bool:
    """Whether the attempt ended less than LATE_OUTPUT_PERIOD ago, so that its container may still exist."""
    ends = (attempt.stopped_at for attempt in job.attempts if attempt.number == tag.attempt)
    return any(ended is not None and now - ended < LATE_OUTPUT_PERIOD for ended in ends)


class Copied(Struct, frozen=True, kw_only=True):
    """The state of a log after a copy."""

    #: The job as it was before the copy; None: its record was deleted.
    job: Job | None
    #: Whether the container's attempt had ended before the copy, and all of its output is stored.
    complete: bool
    #: The time by the event loop's clock until which all output is stored; None if the copy failed or is late.
    until: float | None
    #: The stored bytes of the log.
    size: int


class SharedCopies:
    """The latest copy of each log that is followed, for COPY_INTERVAL after it ended."""

    def __init__(self, *, tail: LogCopier, store: JobStore, archive: LogArchive) -> None:
        self._tail = tail
        self._store = store
        self._archive = archive
        self._copies: dict[Tag, asyncio.Task[Copied]] = {}

    async def copy(self, tag: Tag) -> Copied:
        """Copy the new output of a container, or wait for a copy that another follower began. Raises StoreFailed."""
        task = self._copies.get(tag)
        if task is None:
            task = self._copies[tag] = asyncio.create_task(self._copy(tag), name=f"followed log {tag}")
            task.add_done_callback(lambda _: self._drop_later(tag))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel the copies under way."""
        tasks = list(self._copies.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy(self, tag: Tag) -> Copied:
        job = (await self._store.jobs([tag.job_id])).get(tag.job_id)
        until = None if job is None else await self._tail.copy_one(job, tag)
        complete = job is None or (until is not None and not runs(job, tag))
        return Copied(job=job, complete=complete, until=until, size=await self._archive.size(tag.log_id))

    def _drop_later(self, tag: Tag) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(COPY_INTERVAL.total_seconds(), self._copies.pop, tag, None)
