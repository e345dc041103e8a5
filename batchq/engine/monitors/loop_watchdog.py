"""The event-loop watchdog: measures how late the event loop wakes a task, and finds the call that blocks it.

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

EVERY = timedelta(seconds=0.25)  # between two measurements
TOO_LATE = timedelta(seconds=1)  # a longer delay is logged and reported
OF_LATE = timedelta(minutes=5)  # how long `health` reports a delay
NONE = timedelta(0)
PROMPT = 0.1  # seconds: the longest delay of a thread's wake-up on a machine with free CPU
FRAMES = 4  # innermost frames of the loop's stack that are logged
IDLE = "select"  # the function in which an idle loop waits: if the loop is in it, the whole machine was delayed
NOTHING_SEEN = "nothing that could be seen"


class LoopWatchdog:
    """Measures the delays of the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: When the loop last ran the watchdog's task.
        self._beat = clock.now()
        #: The blocking calls that the thread found during the present delay.
        self._seen: str | None = None
        #: The time and the length of each recent delay.
        self._late: list[tuple[datetime, timedelta]] = []

    async def run(self) -> None:
        """Measure the running loop until cancelled."""
        over = threading.Event()
        loop = threading.get_ident()
        with suppress(RuntimeError):  # if no thread can start, delays are measured without their cause
            threading.Thread(target=self._watch, args=(loop, over), name="pulse", daemon=True).start()
        try:
            while True:
                self._beat = self._clock.now()
                await self._clock.sleep(EVERY.total_seconds())
                self._feel(self._clock.now())
        finally:
            over.set()

    def longest_delay(self) -> timedelta:
        """The longest delay within OF_LATE; zero without one."""
        recent = (late for at, late in self._late if self._clock.now() - at < OF_LATE)
        return max(recent, default=NONE)

    def health(self) -> str:
        """`ok`, or the number and the maximum of the delays in the last minutes."""
        self._late = [it for it in self._late if self._clock.now() - it[0] < OF_LATE]
        if not self._late:
            return "ok"
        longest = max(late for _, late in self._late)
        return f"held up {len(self._late)} times of late, for {longest.total_seconds():.1f} s at most"

    def _feel(self, now: datetime) -> None:
        """Record and log the delay of the loop, if there was one."""
        late = now - self._beat - EVERY
        if late > TOO_LATE:
            self._late.append((now, late))
            log.warning("the event loop was held up for %.1f s by %s", late.total_seconds(), self._seen or NOTHING_SEEN)
        self._seen = None

    def _watch(self, loop: int, over: threading.Event) -> None:
        """Run in the thread: record what the loop is doing when it does not respond."""
        while True:
            began, worked, rest = self._clock.now(), process_time(), self._rest()
            if over.wait(rest):
                return
            now = self._clock.now()
            overslept = (now - began).total_seconds() - rest
            # A call that holds the GIL delays this thread as well, but uses CPU time all the while.
            busy = process_time() - worked > rest + overslept / 2
            if self._seen is None and now - self._beat > EVERY + TOO_LATE and (overslept < PROMPT or busy):
                self._seen = doing(loop)

    def _rest(self) -> float:
        """Seconds until the last beat is too old.

        Usually another beat has followed by then, and no stack is inspected.
        """
        left = self._beat + EVERY + TOO_LATE - self._clock.now()
        return (left if left > NONE else EVERY).total_seconds()


def doing(thread: int) -> str:
    """The innermost calls of a thread, innermost first."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python's only way to inspect another thread
    calls = traceback.extract_stack(frame, limit=FRAMES) if frame is not None else []
    if calls and calls[-1].name == IDLE:
        return "other programs: it waited for its turn"
    return " in ".join(f"{it.name} ({it.filename}:{it.lineno})" for it in reversed(calls))
