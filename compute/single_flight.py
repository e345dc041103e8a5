"""Single flight: concurrent calls for the same key share one execution."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

Key = TypeVar("Key")


class SingleFlight(Generic[Key]):
    """Runs at most one task a key. A task is cancelled once all its callers were cancelled."""

    def __init__(self, name: str) -> None:
        """`name` begins the names of the tasks."""
        self._name = name
        self._under_way: dict[Key, asyncio.Task[None]] = {}
        #: The number of callers that await each task.
        self._waiting: Counter[asyncio.Task[None]] = Counter()

    async def do(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Await the running task of this key, or start `work` as one. Raises what the task raises."""
        task = self._task(key, work)
        self._waiting[task] += 1
        try:
            await asyncio.shield(task)
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                self._abandon(key, task)

    def begin(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Start `work` without waiting for it, unless a task of this key runs.

        Never for a key that is also used with `do`: the last cancelled caller of `do` cancels the task.
        """
        _ = self._task(key, work)

    def _task(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> "asyncio.Task[None]":
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(work(), name=f"{self._name} {key}")
            task.add_done_callback(lambda done: self._finished(key, done))
        return task

    async def idle(self) -> None:
        """Wait until all tasks that run now have ended, whether they succeeded or failed."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def close(self) -> None:
        """Cancel all tasks, and wait for their end."""
        tasks = tuple(self._under_way.values())
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _abandon(self, key: Key, task: "asyncio.Task[None]") -> None:
        """Cancel a task without callers. Later calls for its key start a new one."""
        if not task.done():
            self._under_way.pop(key, None)
            task.cancel()

    def _finished(self, key: Key, task: "asyncio.Task[None]") -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it when no caller awaits the task
