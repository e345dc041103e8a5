"""Running containers on behalf of readers: what they have written until now is kept before it is read."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_gates import spec_of
from batchq.errors import EngineUnknown, StoreFailed
from batchq.logs.capture import LogCapture
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogStream
from batchq.ports.runtime import ContainerRuntime

log = logging.getLogger(__name__)

TOGETHER = 8  # containers whose output is copied at a time
FEW = 8  # containers that are asked for their output without a look which of them are there
FRESH = timedelta(milliseconds=200)  # a running container's output is not copied more often
SETTLING = timedelta(minutes=10)  # in which the container of an attempt that is over may not be cleared away yet
WAITING = 3.0  # seconds that readers wait for one answer of the engine


class SharedRead(Struct, frozen=True, kw_only=True):
    """Something asked of the engine that readers wait for together. `since` in the loop's seconds."""

    task: asyncio.Task[None]
    since: float


class Follower:
    """Readers wait a little. What takes longer goes on without them, and is there for the next one."""

    def __init__(self, *, store: JobStore, runtime: ContainerRuntime, keeper: LogCapture, clock: Clock) -> None:
        self._store = store
        self._runtime = runtime
        self._keeper = keeper
        self._clock = clock
        self._together = asyncio.Semaphore(TOGETHER)
        self._under_way: dict[Hashable, SharedRead] = {}
        self._there: frozenset[Tag] = frozenset()

    async def follow(self, streams: Sequence[LogStream]) -> int | None:
        """Keep what the streams' containers have written. Where it cannot be had, what is kept must do.

        They are read one after the other, so what one wrote last may be kept while what another wrote before that is
        not yet. Answers the time, in nanoseconds, until when all of all of them is kept; None if there is none such.
        """
        growing = await self._growing(streams)
        if len(growing) > FEW:
            await self._wait([self._once("look", self._look)])
            growing = {tag: fresh for tag, fresh in growing.items() if tag in self._there}
        await self._wait([self._once(copy, partial(self._copy, *copy)) for copy in growing.items()])
        return await self._keeper.horizon(growing)

    async def close(self) -> None:
        """Leave off copying; what is not kept yet is there to be kept later."""
        tasks = [work.task for work in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _growing(self, streams: Sequence[LogStream]) -> dict[Tag, timedelta]:
        """The attempts among them that may have a container still, and how old a copy is new enough.

        Output that the job's log driver sends elsewhere is not asked for.
        The last words of an attempt that is over are all there, so none from before its end will do.
        """
        jobs = await self._store.jobs([it.tag.job_id for it in streams])
        now = self._clock.now()
        growing = {}
        for tag in (it.tag for it in streams):
            job = jobs.get(tag.job_id)
            if job is None or not spec_of(job, tag).logging.captured:
                continue
            if _runs(job, tag):
                growing[tag] = FRESH
            elif _has_ended_lately(job, tag, now):
                growing[tag] = timedelta(0)
        return growing

    async def _look(self) -> None:
        try:
            self._there = frozenset(found.tag for found in await self._runtime.survey())
        except EngineUnknown as unknown:
            log.info("readers get what is kept of the logs, and no more: %s", unknown)

    async def _copy(self, tag: Tag, fresh: timedelta) -> None:
        async with self._together:
            try:
                await self._keeper.catch_up(tag, fresh=fresh)
            except EngineUnknown as unknown:
                log.info("container %s: readers get what is kept of its log, and no more: %s", tag, unknown)
            except StoreFailed as failure:
                log.warning("container %s: its output could not be kept for a reader: %s", tag, failure)

    def _once(self, what: Hashable, work: Callable[[], Coroutine[None, None, None]]) -> SharedRead:
        """The work under way, or begun now: what many readers want is done once."""
        if what not in self._under_way:
            task = asyncio.create_task(work(), name=f"reading logs, {what}")
            self._under_way[what] = SharedRead(task=task, since=asyncio.get_running_loop().time())
            task.add_done_callback(lambda _: self._under_way.pop(what))
        return self._under_way[what]

    async def _wait(self, works: Sequence[SharedRead]) -> None:
        """Until all is done, or has had its time: for what others have waited for in vain nobody waits again."""
        if not works:
            return
        patience = max(work.since for work in works) + WAITING - asyncio.get_running_loop().time()
        done, late = await asyncio.wait([work.task for work in works], timeout=max(patience, 0))
        if late and patience > 0:
            log.warning("readers get what is kept of the logs: no answer to %s", [task.get_name() for task in late])
        for task in done:
            task.result()


def _runs(job: Job, tag: Tag) -> bool:
    return job.attempt is not None and job.attempt.number == tag.attempt


def _has_ended_lately(job: Job, tag: Tag, now: datetime) -> bool:
    """So lately that the container may not be cleared away."""
    ends = (it.stopped_at for it in job.attempts if it.number == tag.attempt)
    return any(ended is not None and now - ended < SETTLING for ended in ends)
