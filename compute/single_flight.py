"""Work that many ask for at once and that needs doing once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

Key = TypeVar("Key")


class SingleFlight(Generic[Key]):
    """Who asks for what is under way already waits for that. It is cancelled when all who wait for it were."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._under_way: dict[Key, asyncio.Task[None]] = {}
        self._waiting: Counter[asyncio.Task[None]] = Counter()

    async def do(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> None:
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
        """For a caller that does not wait; never for a key that others wait for."""
        _ = self._task(key, work)

    def _task(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> "asyncio.Task[None]":
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(work(), name=f"{self._name} {key}")
            task.add_done_callback(lambda done: self._finished(key, done))
        return task

    async def idle(self) -> None:
        """Until all that is under way now is done, well or not."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def close(self) -> None:
        tasks = tuple(self._under_way.values())
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _abandon(self, key: Key, task: "asyncio.Task[None]") -> None:
        """Who asks from now on asks anew: what was cancelled has no outcome."""
        if not task.done():
            self._under_way.pop(key, None)
            task.cancel()

    def _finished(self, key: Key, task: "asyncio.Task[None]") -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits for it any more
