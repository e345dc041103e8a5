"""How late the event loop wakes whom it should. Work that blocks it holds up everybody, and nothing else would tell.

A thread beside the loop sees what the loop is at while it does not come back. When the whole process is held up, by a
SIGSTOP or a machine that has no time for it, so is that thread, and what the loop is at then says nothing.
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

EVERY = timedelta(seconds=0.25)
TOO_LATE = timedelta(seconds=1)
OF_LATE = timedelta(minutes=5)
NONE = timedelta(0)
PROMPT = 0.1  # seconds in which a thread comes to its turn after its wait, where there is time for it
FRAMES = 4  # of what the loop was at, the innermost first
IDLE = "select"  # the function in which a loop waits: if it is found there, the whole machine was held up
NOTHING_SEEN = "nothing that could be seen"


class LoopWatchdog:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beat = clock.now()
        self._seen: str | None = None
        self._late: list[tuple[datetime, timedelta]] = []

    async def run(self) -> None:
        """For ever, on the loop that is felt."""
        over = threading.Event()
        loop = threading.get_ident()
        with suppress(RuntimeError):  # without a thread it is felt all the same, and not seen
            threading.Thread(target=self._watch, args=(loop, over), name="pulse", daemon=True).start()
        try:
            while True:
                self._beat = self._clock.now()
                await self._clock.sleep(EVERY.total_seconds())
                self._feel(self._clock.now())
        finally:
            over.set()

    def health(self) -> str:
        """`ok`, or how often the loop was held up in the last minutes, and for how long at most."""
        self._late = [it for it in self._late if self._clock.now() - it[0] < OF_LATE]
        if not self._late:
            return "ok"
        longest = max(late for _, late in self._late)
        return f"held up {len(self._late)} times of late, for {longest.total_seconds():.1f} s at most"

    def _feel(self, now: datetime) -> None:
        late = now - self._beat - EVERY
        if late > TOO_LATE:
            self._late.append((now, late))
            log.warning("the event loop was held up for %.1f s by %s", late.total_seconds(), self._seen or NOTHING_SEEN)
        self._seen = None

    def _watch(self, loop: int, over: threading.Event) -> None:
        while True:
            began, worked, rest = self._clock.now(), process_time(), self._rest()
            if over.wait(rest):
                return
            now = self._clock.now()
            overslept = (now - began).total_seconds() - rest
            # A call that lets no other thread come to its turn holds this one up as well, and works all the while.
            busy = process_time() - worked > rest + overslept / 2
            if self._seen is None and now - self._beat > EVERY + TOO_LATE and (overslept < PROMPT or busy):
                self._seen = doing(loop)

    def _rest(self) -> float:
        """Until the last beat would be too long ago. Most often another has come by then, and nothing is looked at."""
        left = self._beat + EVERY + TOO_LATE - self._clock.now()
        return (left if left > NONE else EVERY).total_seconds()


def doing(thread: int) -> str:
    """What a thread is at, the innermost call first."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python's only way to look at another thread
    calls = traceback.extract_stack(frame, limit=FRAMES) if frame is not None else []
    if calls and calls[-1].name == IDLE:
        return "other programs: it waited for its turn"
    return " in ".join(f"{it.name} ({it.filename}:{it.lineno})" for it in reversed(calls))
