"""The event loop and the clock of a simulated world: time jumps to the next timer, and nothing is outside.

`tests.support.clock` has the same for tests with threads and sockets, for which it looks at each unit; a life here is
tens of thousands of units of work, and without either.
"""

import asyncio
import heapq
from asyncio.events import Handle
from datetime import datetime, timedelta

from tests.support.builders import NOON
from tests.support.clock import Stuck


class WorldLoop(asyncio.BaseEventLoop):
    """Begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0.0

    def time(self) -> float:
        return self._passed

    def call_soon(self, callback, *args, context=None):
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        if not ready and not self._stopping:
            self._passed = max(self._passed, self._next())
        while timers and timers[0]._when <= self._passed:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _next(self) -> float:
        """When the first timer rings that nobody has cancelled."""
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._scheduled:
            raise Stuck
        return self._scheduled[0]._when

    def _timer_handle_cancelled(self, handle) -> None:
        """It is dropped when its time comes."""

    def _write_to_self(self) -> None:
        """It never sleeps, so nobody has to wake it."""


class WorldClock:
    """The Clock port: noon, and then what has passed in this world."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._now = 0.0, NOON

    def now(self) -> datetime:
        passed = self._loop.time()
        if passed != self._now[0]:
            self._now = passed, NOON + timedelta(seconds=passed)
        return self._now[1]

    def sleep(self, seconds: float):
        return asyncio.sleep(seconds)
