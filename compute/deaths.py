"""Deaths of containers: their queue for a subscriber of a runtime, and whether the host or the engine was the cause."""

import asyncio
from collections import deque
from datetime import datetime

from batchq.domain.ids import Tag
from batchq.ports.runtime import DeathReport, Inspection


class EventQueue:
    """An unbounded queue of deaths for one subscriber, as an asynchronous iterator, oldest first.

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
