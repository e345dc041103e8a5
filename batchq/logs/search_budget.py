"""The budget of one log search: how much it may compare, and how often it yields the event loop.

A search holds the event loop for a slice of a few milliseconds, then yields to everything else that is ready. Of
several searches, one continues in each iteration of the loop. A request with an exhausted budget ends its page early,
and the client continues with the nextToken.
"""

import asyncio
from collections.abc import Callable
from typing import Final

SLICE: Final = 1024 * 1024  # bytes compared before the loop is yielded: 5 ms at 200 MB a second
LINE_COST: Final = 1024  # bytes; the fixed cost of a line
MAX_COMPARED: Final = 64 * 1024 * 1024  # bytes that one request compares
MAX_SECONDS: Final = 5.0  # duration of one request, including the time it waits for other searches


def never() -> bool:
    """The default for `gone`: the client never disconnects."""
    return False


class Budget:
    """The budget of one request."""

    def __init__(self, turns: asyncio.Lock, *, gone: Callable[[], bool] = never) -> None:
        """`turns`: the lock that all searches share. `gone`: whether the client has disconnected."""
        self._turns = turns
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + MAX_SECONDS
        self._left = MAX_COMPARED
        self._slice = SLICE

    @property
    def exhausted(self) -> bool:
        return self._left <= 0 or self._gone() or self._loop.time() > self._ends_at

    def slice_ends_by(self, size: int) -> bool:
        """Charge `size` bytes to the budget. Returns whether `pause` must be awaited before they are compared."""
        self._left -= size
        self._slice -= size
        return self._slice < 0

    async def pause(self) -> None:
        async with self._turns:
            await asyncio.sleep(0)  # noqa: TID251 - yields the event loop, does not wait
        self._slice = SLICE
