"""Renders templates in slices, so that a page does not hold the event loop. Decision 0072.

A slice ends after SLICE seconds, and then everything else that is ready runs. Of all pages, one continues in each
iteration of the event loop. One page of a user is rendered at a time; the others of the same user wait.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from time import perf_counter

from msgspec import Struct

from batchq.api.console.templates import encoded
from batchq.system.throttling import ConcurrencyLimit

SLICE = 0.003  # seconds
#: Parts of a page that are rendered between two reads of the clock. A read after each part takes 1 % of a list of jobs.
PARTS_AT_ONCE = 16
MAX_WAITING = 256  # pages of one user that wait


class Rendered(Struct, frozen=True, kw_only=True):
    """The text of a page or of a part of one."""

    #: UTF-8.
    body: bytes
    #: Of the body, in hexadecimal digits.
    digest: str
    #: Seconds in which the event loop was held, in all slices together.
    seconds: float


class Renderer:
    """Renders the pages of all users."""

    def __init__(self) -> None:
        self._next_slice = asyncio.Lock()
        self._users = ConcurrencyLimit[str](at_once=1, waiting=MAX_WAITING)

    async def render(self, parts: Iterable[str], *, user: str) -> Rendered:
        """Join the parts of a page, which are rendered as they are read.

        Raises Throttled when too many pages of the user wait.
        """
        async with self._users.of(user):
            body, digest, seconds = bytearray(), hashlib.sha256(), 0.0
            rest, is_over = iter(parts), False
            while not is_over:
                began = perf_counter()
                text, is_over = _slice(rest, until=began + SLICE)
                part = encoded(text)
                body += part
                digest.update(part)
                seconds += perf_counter() - began
                if not is_over:
                    await self._yield_loop()
            return Rendered(body=bytes(body), digest=digest.hexdigest(), seconds=seconds)

    async def _yield_loop(self) -> None:
        async with self._next_slice:
            await asyncio.sleep(0)  # noqa: TID251 - yields the event loop, does not wait


def _slice(parts: Iterator[str], *, until: float) -> tuple[str, bool]:
    """The parts that are rendered before `until`, at least PARTS_AT_ONCE, and whether they are the last ones."""
    text = []
    while more := list(islice(parts, PARTS_AT_ONCE)):
        text += more
        if perf_counter() > until:
            return "".join(text), False
    return "".join(text), True
