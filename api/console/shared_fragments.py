"""Fragments of pages that requests share: each is rendered at most once a second for all requests of its users.

A request that comes after a change waits for the next rendering: its page has read the hint of that change already, and
would not fetch the fragment again.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable
from http import HTTPStatus
from typing import Self

from msgspec import Struct

from batchq.api.console.templates import encoded
from batchq.ports.clock import Clock
from batchq.services.records import EventService

SHARED_FOR = 1.0  # seconds between two renderings of a fragment


class Fragment(Struct, frozen=True, kw_only=True):
    """A rendered block of a page."""

    body: bytes
    #: For the header ETag.
    tag: str
    #: Of the page.
    status: HTTPStatus

    @classmethod
    def of(cls, text: str, status: HTTPStatus) -> Self:
        body = encoded(text)
        return cls(body=body, tag=f'"{hashlib.sha256(body).hexdigest()[:32]}"', status=status)


class SharedFragments:
    """The renderings of the last second, and those that are due in the next."""

    def __init__(self, *, events: EventService, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._renderings: dict[Hashable, _Rendering] = {}

    async def of(self, key: Hashable, render: Callable[[], Awaitable[Fragment]]) -> Fragment:
        """Return the fragment; `key` has all on which it depends."""
        now = asyncio.get_running_loop().time()
        found = self._renderings.get(key)
        if found is None or found.begins_at + SHARED_FOR <= now:
            recent = {of: it for of, it in self._renderings.items() if it.begins_at + SHARED_FOR > now}
            self._renderings = recent
            found = self._begin(key, now, render)
        elif found.number is not None and found.number != self._events.last:
            found = self._begin(key, found.begins_at + SHARED_FOR, render)
        return await asyncio.shield(found.task)

    def _begin(self, key: Hashable, begins_at: float, render: Callable[[], Awaitable[Fragment]]) -> "_Rendering":
        rendering = self._renderings[key] = _Rendering(begins_at)
        rendering.task = asyncio.create_task(self._render(rendering, render), name="rendering of a fragment")
        # Otherwise asyncio logs a failure for which every client has gone.
        rendering.task.add_done_callback(lambda it: it.cancelled() or it.exception())
        return rendering

    async def _render(self, rendering: "_Rendering", render: Callable[[], Awaitable[Fragment]]) -> Fragment:
        wait = rendering.begins_at - asyncio.get_running_loop().time()
        if wait > 0:
            await self._clock.sleep(wait)
        rendering.number = self._events.last
        return await render()


class _Rendering:
    """One rendering of a fragment."""

    task: asyncio.Task[Fragment]

    def __init__(self, begins_at: float) -> None:
        #: In seconds of the event loop's clock.
        self.begins_at = begins_at
        #: The newest change that it shows; None before it begins.
        self.number: int | None = None
