"""What the container runtimes share: queues of deaths, losses with the host, and single flight."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Generic, TypeVar

from batchq.domain.ids import Tag
from batchq.ports.runtime import DeathReport, Inspection

Key = TypeVar("Key")


class EventQueue(asyncio.Queue[Tag | DeathReport | None]):
    """The deaths for one subscriber of a runtime, as an asynchronous iterator that ends at None."""

    def __aiter__(self) -> "EventQueue":
        return self

    async def __anext__(self) -> Tag | DeathReport:
        death = await self.get()
        if death is None:
            raise StopAsyncIteration
        return death


def ended_with_host(inspection: Inspection, before: datetime | None) -> bool:
    """Whether the container failed because its host or its engine went down: docs/decisions/0014.

    It did if it started before the time `before`, when the engine's present run began, as `lost_before` of the runtime
    returns it. None: the time is unknown, and every exit counts as the container's own.
    """
    if before is None or inspection.started_at is None or not failed(inspection):
        return False
    return inspection.started_at < before


def failed(inspection: Inspection) -> bool:
    """Whether the container failed: an exit with 0 is a success even if the host went down afterwards."""
    return inspection.exit_code not in {None, 0}


class SingleFlight(Generic[Key]):
    """Runs at most one task a key, for all calls at the same time. It is cancelled once all callers were cancelled."""

    def __init__(self, name: str) -> None:
        """`name` begins the names of the tasks."""
        self._name = name
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        #: The number of callers that await each task.
        self._callers: Counter[asyncio.Task[None]] = Counter()

    async def run(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Await the running task of this key, or start `work` as one. Raises what the task raises."""
        task = self._task(key, work)
        self._callers[task] += 1
        try:
            await asyncio.shield(task)
        finally:
            self._callers[task] -= 1
            if not self._callers[task]:
                del self._callers[task]
                if not task.done():
                    self._tasks.pop(key, None)  # later calls for the key start a new task
                    task.cancel()

    def start_detached(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start `work` without waiting for it, unless a task of this key runs.

        Not for a key that is also used with `run`, whose last cancelled caller cancels the task.
        """
        _ = self._task(key, work)

    def _task(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> "asyncio.Task[None]":
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work(), name=f"{self._name} {key}")
            task.add_done_callback(lambda done: self._on_done(key, done))
        return task

    async def close(self) -> None:
        """Cancel all tasks, and wait for their end."""
        tasks = tuple(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_done(self, key: Key, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it when no caller awaits the task
