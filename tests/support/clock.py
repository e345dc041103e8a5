"""Virtual time: an event loop that jumps to its next timer instead of waiting for it.

A conftest selects it with the hook of pytest-asyncio, for the tests of its folder:

    from tests.support.clock import pytest_asyncio_loop_factories

Threads and sockets are real: before each jump the loop waits a moment for them, and until it has ended for a call of
`run_in_executor`. A fixture for real time calls `live_really()`.

On a `StandingLoop`, for tests of timers among sockets, time passes only by `let_pass`.
"""

import asyncio
import heapq
import selectors
import threading
import time
from asyncio.events import Handle
from datetime import datetime, timedelta

from batchq.domain.times import EPOCH
from batchq.ports.clock import Boot
from batchq.system.clock import SystemClock
from tests.support.builders import NOON

OUTSIDE_TIMEOUT = 0.02  # seconds to wait for threads and sockets before each jump
CALL_TIMEOUT = 10.0  # the same for calls in an executor


class Stuck(Exception):
    """Every task waits, no timer is set, and no thread or socket could wake a task."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time starts at 0, and passes only when every task waits, and then at once."""

    def __init__(self):
        self._waiting = _Waiting()
        super().__init__(self._waiting)

    def time(self):
        return self._waiting.now

    def live_really(self):
        """Use the time of the machine from now on."""
        self._waiting.live_really()

    def run_in_executor(self, executor, func, *args):
        call = super().run_in_executor(executor, func, *args)
        self._waiting.calls += 1
        call.add_done_callback(self._called)
        return call

    def _called(self, _):
        self._waiting.calls -= 1


class TimerLoop(asyncio.BaseEventLoop):
    """Time starts at 0 and jumps to the next timer. Faster than VirtualLoop: it serves no sockets.

    What would run in a thread runs at once, on the thread of the loop.
    """

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
        """The time of the first timer that is not cancelled."""
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._scheduled:
            raise Stuck
        return self._scheduled[0]._when

    def run_in_executor(self, executor, func, *args):
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the future raises the error where it is awaited
            done.set_exception(error)
        return done

    def _timer_handle_cancelled(self, handle) -> None:
        """A cancelled timer is dropped when its time comes."""

    def _write_to_self(self) -> None:
        """The loop never sleeps."""


class StandingLoop(asyncio.SelectorEventLoop):
    """Time starts at 0, and passes only by `let_pass`, however long the machine takes."""

    def __init__(self):
        self._passed = 0.0
        self._real_since = None
        super().__init__()

    def time(self):
        return self._passed + (0.0 if self._real_since is None else time.monotonic() - self._real_since)

    def live_really(self):
        """Use the time of the machine from now on."""
        self._real_since = time.monotonic()

    def advance(self, seconds):
        self._passed += seconds


class VirtualClock:
    """The Clock port on the running loop: noon, and then what has passed there."""

    virtual = True

    def __init__(self) -> None:
        self._now = 0.0, NOON

    def now(self) -> datetime:
        passed = asyncio.get_running_loop().time()
        if passed != self._now[0]:
            self._now = passed, NOON + timedelta(seconds=passed)
        return self._now[1]

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def boot(self) -> Boot:
        return Boot(id="virtual", at=NOON)


class SetClock:
    """The clock of the next server, after the machine's clock was set forward by `by`."""

    def __init__(self, clock, by: timedelta, *, boot_id: str | None = None) -> None:
        """`boot_id`: of the machine, if it was rebooted as well."""
        self._clock = clock
        self._by = by
        self._boot_id = boot_id
        self.virtual = getattr(clock, "virtual", False)

    def now(self) -> datetime:
        return self._clock.now() + self._by

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def boot(self) -> Boot:
        before = self._clock.boot()
        return Boot(id=self._boot_id or before.id, at=before.at + self._by)


def pytest_asyncio_loop_factories(config, item):
    return {"virtual": VirtualLoop}


class _Waiting(selectors.DefaultSelector):
    """The work of the event loop between two rounds of callbacks."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self._passed = 0.0
        self._real_since = None
        self._others = set(threading.enumerate())

    @property
    def now(self):
        return self._passed + (0.0 if self._real_since is None else time.monotonic() - self._real_since)

    def live_really(self):
        if self._real_since is None:
            self._real_since = time.monotonic()

    def select(self, timeout=None):
        if self._real_since is not None:
            return super().select(timeout)
        patience = self._patience()  # first: a thread that ends now has posted its result before the next line
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None and not patience:
            raise Stuck
        if patience and (ready := super().select(None if timeout is None else patience)):
            return ready
        self._passed += timeout or 0
        return []

    def _patience(self):
        """Real seconds to wait for calls, sockets and threads of this test; 0 without any."""
        if self.calls:
            return CALL_TIMEOUT
        sockets = len(self.get_map()) > 1  # beside the loop's own
        threads = [
            item for item in threading.enumerate() if item not in self._others and not item.name.startswith("asyncio_")
        ]
        return OUTSIDE_TIMEOUT if sockets or threads else 0


class DiskClock:
    """The clock of a disk of simulated containers, which can be set. The world's clock is the true time.

    The simulated engine writes each file with the true time as its time of modification.
    """

    def __init__(self, now):
        self._now = now
        self._set = [(now(), timedelta())]

    def step(self, seconds):
        """Set the clock ahead, or back if `seconds` is negative."""
        self._set.append((self._now(), self._set[-1][1] + timedelta(seconds=seconds)))

    def now(self):
        return self._shown(self._now())

    def changed_at(self, found):
        """When the file was changed, by this clock, in nanoseconds since the epoch."""
        true = EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)
        return (self._shown(true) - EPOCH) // timedelta(microseconds=1) * 1000

    def _shown(self, at):
        return at + next((skew for since, skew in reversed(self._set) if since <= at), timedelta())


class ShiftedClock(SystemClock):
    """The system clock of a server that is ahead of the clock of the disk, or behind it."""

    def __init__(self):
        super().__init__()
        self.ahead = timedelta()

    def now(self):
        return super().now() + self.ahead
