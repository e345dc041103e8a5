"""What gives way to what: nobody waits for a removal, and it is the engine's hardest work."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FIRST, LAST = frozenset({"stop", "kill"}), frozenset({"remove"})
LONGEST = 5.0  # seconds that one gives way


class Precedence:
    """It belongs to the event loop."""

    def __init__(self) -> None:
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
        self._calm.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._calm.set()
