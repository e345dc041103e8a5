"""An unbounded queue of container deaths for one subscriber of a runtime."""

import asyncio
from collections import deque

from batchq.domain.ids import Tag
from batchq.ports.runtime import DeathReport


class EventQueue:
    """An asynchronous iterator over the deaths that were added, oldest first.

    Not thread-safe: all methods run on the event loop; other threads use `call_soon_threadsafe`.
    """

    def __init__(self) -> None:
        self._items: deque[Tag | DeathReport] = deque()
        self._ended = False
        self._changed = asyncio.Event()

    def put(self, *items: Tag | DeathReport) -> None:
        """Add items to the queue."""
        self._items.extend(items)
        self._changed.set()

    def end(self) -> None:
        """End the iteration after the items that were added so far."""
        self._ended = True
        self._changed.set()

    def __aiter__(self) -> "EventQueue":
        return self

    async def __anext__(self) -> Tag | DeathReport:
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._items.popleft()
