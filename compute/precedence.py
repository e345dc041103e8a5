"""What gives way to what: a removal is the engine's hardest work, and seldom waited for.

Only the next attempt of its job, or a start that is given up, waits for one; so it gives way to many, and not for long.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FIRST, LAST = frozenset({"stop", "kill"}), frozenset({"remove"})
LONGEST = 5.0  # seconds that one gives way


class Precedence:
    """It belongs to the event loop."""

    def __init__(self, few: int) -> None:
        """To so few nothing gives way: one of them may be stuck, and it holds up nobody else."""
        self._few = few
        self._under_way = 0
        self._calm = asyncio.Event()
        self._calm.set()

    async def turn(self, call: str) -> None:
        """Return when a call of this kind may begin."""
        if call in LAST and not self._calm.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST):
                    await self._calm.wait()

    @contextmanager
    def of(self, call: str) -> Iterator[None]:
        """As long as such a call is under way."""
        if call not in FIRST:
            yield
            return
        self._under_way += 1
        if self._under_way > self._few:
            self._calm.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if self._under_way <= self._few:
                self._calm.set()
