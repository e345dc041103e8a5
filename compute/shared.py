"""Work that many ask for at once and that needs doing once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

Key = TypeVar("Key")


class Shared(Generic[Key]):
    """Who asks for what is under way already waits for that. None of those who wait can cancel it for the others."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._under_way: dict[Key, asyncio.Task[None]] = {}

    async def do(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> None:
        await asyncio.shield(self._task(key, work))

    def begin(self, key: Key, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """For one who does not wait; it is kept track of here."""
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
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, key: Key, task: "asyncio.Task[None]") -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits for it any more
