"""Running containers on behalf of readers: what they have written until now is kept before it is read."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from batchq.domain.job import Job, Tag
from batchq.errors import EngineUnknown, StoreFailed
from batchq.logs.keeping import Keeper
from batchq.ports import Clock, ContainerRuntime, JobStore
from batchq.values import LogStream

log = logging.getLogger(__name__)

TOGETHER = 8  # containers whose output is copied at a time
FEW = 8  # containers that are asked for their output without a look which of them are there
SETTLING = timedelta(minutes=10)  # in which the container of an attempt that is over may not be cleared away yet
WAITING = 3.0  # seconds that a reader waits for the engine
PAUSE = timedelta(seconds=5)  # in which an engine that let a reader wait is not asked again


class Follower:
    """A reader waits a little. What takes longer goes on without it, and is there for the next one."""

    def __init__(self, *, store: JobStore, runtime: ContainerRuntime, keeper: Keeper, clock: Clock) -> None:
        self._store = store
        self._runtime = runtime
        self._keeper = keeper
        self._clock = clock
        self._together = asyncio.Semaphore(TOGETHER)
        self._under_way: set[asyncio.Task[None]] = set()
        self._ask_from = clock.now()

    async def follow(self, streams: Sequence[LogStream]) -> None:
        """Keep what the streams' containers have written. Where it cannot be had, what is kept must do."""
        if self._pausing():
            return
        task = asyncio.create_task(self._catch_up(streams), name="read logs")
        self._under_way.add(task)
        task.add_done_callback(self._end)
        done, _ = await asyncio.wait({task}, timeout=WAITING)
        if not done:
            self._pause(f"the engine did not tell in {WAITING:.0f} s")
        for it in done:
            it.result()

    async def close(self) -> None:
        """Leave off copying; what is not kept yet is there to be kept later."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _end(self, task: asyncio.Task[None]) -> None:
        """Nobody may be left to hear of an error; whoever waits does."""
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("readers' logs were not caught up with: %s", task.exception())

    async def _catch_up(self, streams: Sequence[LogStream]) -> None:
        try:
            tags = await self._growing(streams)
        except EngineUnknown as unknown:
            self._pause(unknown)
            return
        async with asyncio.TaskGroup() as copies:
            for tag in tags:
                copies.create_task(self._copy(tag), name=f"read the log of {tag}")

    async def _growing(self, streams: Sequence[LogStream]) -> list[Tag]:
        """The attempts among them that may have a container still."""
        jobs = await self._store.jobs([it.tag.job_id for it in streams])
        now = self._clock.now()
        tags = [it.tag for it in streams if _may_grow(jobs.get(it.tag.job_id), it.tag, now)]
        if len(tags) <= FEW:
            return tags
        there = {found.tag for found in await self._runtime.survey()}
        return [tag for tag in tags if tag in there]

    async def _copy(self, tag: Tag) -> None:
        async with self._together:
            if self._pausing():
                return
            try:
                await self._keeper.catch_up(tag)
            except EngineUnknown as unknown:
                self._pause(unknown)
            except StoreFailed as failure:
                log.warning("container %s: its output could not be kept for a reader: %s", tag, failure)

    def _pausing(self) -> bool:
        return self._clock.now() < self._ask_from

    def _pause(self, why: object) -> None:
        log.warning("readers get what is kept of the logs, and no more: %s", why)
        self._ask_from = self._clock.now() + PAUSE


def _may_grow(job: Job | None, tag: Tag, now: datetime) -> bool:
    """Whether an attempt is under way, or ended so lately that its container may not be cleared away."""
    if job is None:
        return False
    if job.attempt is not None and job.attempt.number == tag.attempt:
        return True
    ends = (it.stopped_at for it in job.attempts if it.number == tag.attempt)
    return any(ended is not None and now - ended < SETTLING for ended in ends)
