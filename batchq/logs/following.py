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
PATIENCE = timedelta(seconds=5)  # in which an engine that gave no answer is not asked again


class Follower:
    def __init__(self, *, store: JobStore, runtime: ContainerRuntime, keeper: Keeper, clock: Clock) -> None:
        self._store = store
        self._runtime = runtime
        self._keeper = keeper
        self._clock = clock
        self._together = asyncio.Semaphore(TOGETHER)
        self._ask_from = clock.now()

    async def follow(self, streams: Sequence[LogStream]) -> None:
        """Keep what the streams' containers have written. Where it cannot be had, what is kept must do."""
        try:
            tags = await self._growing(streams)
        except EngineUnknown as unknown:
            self._fall_silent(unknown)
            return
        async with asyncio.TaskGroup() as copies:
            for tag in tags:
                copies.create_task(self._catch_up(tag), name=f"read {tag}")

    async def _growing(self, streams: Sequence[LogStream]) -> list[Tag]:
        """The attempts among them that may have a container still."""
        jobs = await self._store.jobs([it.tag.job_id for it in streams])
        now = self._clock.now()
        tags = [it.tag for it in streams if _may_grow(jobs.get(it.tag.job_id), it.tag, now)]
        if len(tags) <= FEW or now < self._ask_from:
            return tags
        there = {found.tag for found in await self._runtime.survey()}
        return [tag for tag in tags if tag in there]

    async def _catch_up(self, tag: Tag) -> None:
        async with self._together:
            if self._clock.now() < self._ask_from:
                return
            try:
                await self._keeper.catch_up(tag)
            except EngineUnknown as unknown:
                self._fall_silent(unknown)
            except StoreFailed as failure:
                log.warning("container %s: its output could not be kept for a reader: %s", tag, failure)

    def _fall_silent(self, unknown: EngineUnknown) -> None:
        log.warning("readers get what is kept of the logs, and no more: %s", unknown)
        self._ask_from = self._clock.now() + PATIENCE


def _may_grow(job: Job | None, tag: Tag, now: datetime) -> bool:
    """Whether an attempt is under way, or ended so lately that its container may not be cleared away."""
    if job is None:
        return False
    if job.attempt is not None and job.attempt.number == tag.attempt:
        return True
    ends = (it.stopped_at for it in job.attempts if it.number == tag.attempt)
    return any(ended is not None and now - ended < SETTLING for ended in ends)
