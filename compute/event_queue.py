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
        self._told: deque[Tag | DeathReport] = deque()
        self._ended = False
        self._something = asyncio.Event()

    def tell(self, *news: Tag | DeathReport) -> None:
        """Add items to the queue."""
        self._told.extend(news)
        self._something.set()

    def end(self) -> None:
        """End the iteration after the items that were added so far."""
        self._ended = True
        self._something.set()

    def __aiter__(self) -> "EventQueue":
        return self

    async def __anext__(self) -> Tag | DeathReport:
        while not self._told:
            if self._ended:
                raise StopAsyncIteration
            self._something.clear()
            await self._something.wait()
        return self._told.popleft()
