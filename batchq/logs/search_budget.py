"""How much work one search of logs may do, and how it shares the event loop with everything else.

The event loop is held for a slice of some milliseconds; then everything else that is ready runs, and of several
searches one goes on in each round of the loop. A request that has used up its budget ends its page early, and the
client goes on with the nextToken.
"""

import asyncio
from collections.abc import Callable
from typing import Final

SLICE: Final = 1024 * 1024  # bytes compared until others run: 5 ms at 200 MB a second
LINE_COST: Final = 1024  # bytes: what a line takes besides comparing it
MAX_COMPARED: Final = 64 * 1024 * 1024  # bytes that one request compares
MAX_SECONDS: Final = 5.0  # that one request takes, waiting for other searches included


def never() -> bool:
    """The client of this request does not go away."""
    return False


class Budget:
    """Of one request. `turns` is shared by all searches, `gone` is whether the client has gone away."""

    def __init__(self, turns: asyncio.Lock, *, gone: Callable[[], bool] = never) -> None:
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
        """Spend so many bytes. Whether `pause` must be awaited before they are compared."""
        self._left -= size
        self._slice -= size
        return self._slice < 0

    async def pause(self) -> None:
        async with self._turns:
            await asyncio.sleep(0)  # noqa: TID251 - no time passes, what is ready goes first
        self._slice = SLICE
