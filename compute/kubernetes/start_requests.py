"""The starts that are being requested of the API server. Removals let them pass."""

import asyncio

from batchq.domain.ids import Tag

REMOVAL_WAIT = 1.0  # seconds that removals wait at most for starts that are being requested


class StartRequests:
    """The containers whose starts are being requested: from the request for the pod until its binding was answered."""

    def __init__(self) -> None:
        self._tags: set[Tag] = set()
        #: Set while no start is being requested.
        self._none = asyncio.Event()
        self._none.set()

    def begin(self, tag: Tag) -> None:
        self._tags.add(tag)
        self._none.clear()

    def end(self, tag: Tag) -> None:
        """The start was requested, or is given up."""
        self._tags.discard(tag)
        if not self._tags:
            self._none.set()

    async def wait_for_end(self) -> None:
        """Wait until no start is being requested, at most REMOVAL_WAIT."""
        await wait_for_event(REMOVAL_WAIT, self._none)


async def wait_for_event(seconds: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
