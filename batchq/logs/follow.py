"""Copies of one container's output for all of its followers: 100 followers of one log cost one copy."""

import asyncio

from msgspec import Struct

from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.logs.tail import COPY_INTERVAL, LogTail
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogArchive


class Copied(Struct, frozen=True, kw_only=True):
    """The state of a log after a copy."""

    #: The job as it was before the copy; None: it is not stored any more.
    job: Job | None
    #: Whether the container's attempt had ended before the copy, and all of its output is stored.
    complete: bool
    #: The stored bytes of the log.
    size: int


class SharedCopies:
    """The latest copy of each log that is followed, for COPY_INTERVAL after it ended."""

    def __init__(self, *, tail: LogTail, store: JobStore, archive: LogArchive) -> None:
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
        complete = job is None or await self._tail.copy_one(job, tag)
        return Copied(job=job, complete=complete, size=await self._archive.size(tag.log_id))

    def _drop_later(self, tag: Tag) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(COPY_INTERVAL.total_seconds(), self._copies.pop, tag, None)
