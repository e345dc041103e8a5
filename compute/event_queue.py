"""News of deaths for one who listens: kept until it is read, and then an end."""

import asyncio
from collections import deque

from batchq.domain.ids import Tag
from batchq.ports.runtime import DeathReport


class EventQueue:
    """An iterator. It belongs to the event loop; threads hand over by `call_soon_threadsafe`."""

    def __init__(self) -> None:
        self._told: deque[Tag | DeathReport] = deque()
        self._ended = False
        self._something = asyncio.Event()

    def tell(self, *news: Tag | DeathReport) -> None:
        self._told.extend(news)
        self._something.set()

    def end(self) -> None:
        """Nothing comes after what has been told."""
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
