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
                self._cancel_task(key, task)

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

    async def idle(self) -> None:
        """Wait until all tasks that run now have ended, whether they succeeded or failed."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Cancel all tasks, and wait for their end."""
        tasks = tuple(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cancel_task(self, key: Key, task: "asyncio.Task[None]") -> None:
        """Cancel a task without callers. Later calls for its key start a new one."""
        if not task.done():
            self._tasks.pop(key, None)
            task.cancel()

    def _on_done(self, key: Key, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it when no caller awaits the task
