"""The event-loop watchdog: measures how late the event loop wakes a task, and finds the call that blocks the loop.

A blocking call delays every request without any other sign. A thread inspects the stack of the loop's thread while the
loop does not respond. If the whole process is stopped (SIGSTOP, or a machine without free CPU), the thread is delayed
as well, and the stack says nothing about the cause.
"""

import logging
import sys
import threading
import traceback
from contextlib import suppress
from datetime import datetime, timedelta
from time import process_time

from batchq.ports.clock import Clock

log = logging.getLogger(__name__)
INTERVAL = timedelta(seconds=0.25)  # between two measurements
MAX_DELAY = timedelta(seconds=1)  # a longer delay is logged and reported
DELAY_SHOWN_FOR = timedelta(minutes=5)  # how long `health` reports a delay
NONE = timedelta(0)
MAX_WAKE_DELAY = 0.1  # seconds: the longest delay of a thread's wake-up on a machine with free CPU
FRAMES = 4  # innermost frames of the loop's stack that are logged
IDLE_FUNCTION = (
    "select"  # the function in which an idle loop waits: if the loop is in it, the whole machine was delayed
)
UNKNOWN_CAUSE = "an unknown cause"


class LoopWatchdog:
    """Measures the delays of the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: When the loop last ran the watchdog's task.
        self._last_run = clock.now()
        #: The blocking calls that the thread found during the present delay.
        self._cause: str | None = None
        #: The delay of the loop at the last measurement.
        self.latest_delay = NONE
        #: The time and the length of each recent delay.
        self._delays: list[tuple[datetime, timedelta]] = []

    async def run(self) -> None:
        """Measure the running loop until cancelled."""
        stopped = threading.Event()
        loop = threading.get_ident()
        with suppress(RuntimeError):  # if no thread can start, delays are measured without their cause
            threading.Thread(target=self._find_cause, args=(loop, stopped), name="loop watchdog", daemon=True).start()
        try:
            while True:
                self._last_run = self._clock.now()
                await self._clock.sleep(INTERVAL.total_seconds())
                self._record_delay(self._clock.now())
        finally:
            stopped.set()

    def longest_delay(self) -> timedelta:
        """The longest delay within DELAY_SHOWN_FOR; zero without one."""
        recent = (late for at, late in self._delays if self._clock.now() - at < DELAY_SHOWN_FOR)
        return max(recent, default=NONE)

    def health(self) -> str:
        """`ok`, or the number and the maximum of the delays in the last minutes."""
        self._delays = [delay for delay in self._delays if self._clock.now() - delay[0] < DELAY_SHOWN_FOR]
        if not self._delays:
            return "ok"
        longest = max(late for _, late in self._delays)
        return f"blocked {len(self._delays)} times recently, for at most {longest.total_seconds():.1f} s"

    def _record_delay(self, now: datetime) -> None:
        self.latest_delay = late = now - self._last_run - INTERVAL
        if late > MAX_DELAY:
            self._delays.append((now, late))
            log.warning(
                "the event loop was blocked for %.1f s by %s", late.total_seconds(), self._cause or UNKNOWN_CAUSE
            )
        self._cause = None

    def _find_cause(self, loop: int, stopped: threading.Event) -> None:
        """Run in the thread: record what the loop is doing when it does not respond."""
        while True:
            began, worked, rest = self._clock.now(), process_time(), self._until_too_late()
            if stopped.wait(rest):
                return
            now = self._clock.now()
            overslept = (now - began).total_seconds() - rest
            # A call that holds the GIL delays this thread as well, but uses CPU time all the while.
            busy = process_time() - worked > rest + overslept / 2
            if (
                self._cause is None
                and now - self._last_run > INTERVAL + MAX_DELAY
                and (overslept < MAX_WAKE_DELAY or busy)
            ):
                self._cause = innermost_calls(loop)

    def _until_too_late(self) -> float:
        """Seconds until the last run of the watchdog's task is too old.

        Usually the task has run again by then, and no stack is inspected.
        """
        left = self._last_run + INTERVAL + MAX_DELAY - self._clock.now()
        return (left if left > NONE else INTERVAL).total_seconds()


def innermost_calls(thread: int) -> str:
    """The innermost calls of a thread, innermost first."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python's only way to inspect another thread
    calls = traceback.extract_stack(frame, limit=FRAMES) if frame is not None else []
    if calls and calls[-1].name == IDLE_FUNCTION:
        return "other programs: no CPU was free for this process"
    return " in ".join(f"{summary.name} ({summary.filename}:{summary.lineno})" for summary in reversed(calls))
