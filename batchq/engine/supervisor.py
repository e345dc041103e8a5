"""The supervisor: holds every background task by name, and restarts loops that fail. Also a wait with a timeout."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta

from batchq.errors import EngineError
from batchq.ports.clock import Clock

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a failed loop starts again

MOST_DOUBLINGS = 5  # of FIRST_PAUSE; the result exceeds LONGEST_PAUSE

PEACE = timedelta(minutes=5)  # without a failure, after which the count starts again

MINUTE = timedelta(minutes=1)  # after the last failure, a loop no longer counts as failing

TOO_OFTEN = 3  # failures, the last within MINUTE: the loop counts as failing


class Supervisor:
    """Runs background tasks and restarts supervised loops."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: set[asyncio.Task[None]] = set()
        #: By loop, its failures until PEACE passed without one.
        self._failures: dict[str, int] = {}
        self._failed_at: dict[str, datetime] = {}

    def spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Run the coroutine as a task. An exception other than EngineError is logged."""
        _ = self.task(name, work)

    def task(self, name: str, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Like `spawn`, but return the task."""
        task = asyncio.create_task(work, name=name)
        self._held.add(task)
        task.add_done_callback(self._done)
        return task

    def supervise(self, name: str, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a loop that should never end.

        If it ends or fails, it is restarted after a pause that doubles with each failure.
        """
        self._failures[name] = 0
        self._start(name, loop, 0.0)

    def health(self) -> dict[str, str]:
        """The state of each loop: `ok`, or how often it has failed recently and whether it keeps failing."""
        return {name: self._fares(name) for name in self._failures}

    @property
    def failing(self) -> bool:
        """Whether a loop fails each time it is restarted."""
        return any(self._keeps_failing(name) for name in self._failures)

    @property
    def names(self) -> list[str]:
        """The names of the running tasks, sorted."""
        return sorted(task.get_name() for task in self._held)

    async def drain(self, patience: float) -> None:
        """Wait until only the supervised loops are running, at most `patience` seconds."""
        nap = asyncio.ensure_future(self._clock.sleep(patience))
        try:
            while not nap.done() and (work := {task for task in self._held if task.get_name() not in self._failures}):
                await asyncio.wait({nap, *work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        while self._held:
            tasks = tuple(self._held)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, name: str, loop: Callable[[], Coroutine[None, None, None]], pause: float) -> None:
        task = self.task(name, self._after(pause, loop))
        task.add_done_callback(lambda done: self._again(name, loop, done))

    async def _after(self, pause: float, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        if pause:
            await self._clock.sleep(pause)
        await loop()

    def _again(self, name: str, loop: Callable[[], Coroutine[None, None, None]], done: asyncio.Task[None]) -> None:
        """Restart the loop unless it was cancelled.

        A task also ends as cancelled if an awaited task was cancelled; such a loop is restarted.
        """
        if done.cancelled() and done.cancelling():
            return
        before = self._lately(name)
        self._failures[name], self._failed_at[name] = before + 1, self._clock.now()
        pause = min(FIRST_PAUSE * 2 ** min(before, MOST_DOUBLINGS), LONGEST_PAUSE)
        log.warning("loop %s ended; it begins again in %.0f s", name, pause)
        self._start(name, loop, pause)

    def _fares(self, name: str) -> str:
        count = self._lately(name)
        if not count:
            return "ok"
        return f"restarted {count} times{' and keeps failing' if self._keeps_failing(name) else ''}"

    def _keeps_failing(self, name: str) -> bool:
        return self._lately(name) >= TOO_OFTEN and self._clock.now() - self._failed_at[name] < MINUTE

    def _lately(self, name: str) -> int:
        """How often a loop has failed without PEACE in between."""
        at = self._failed_at.get(name)
        return self._failures[name] if at is not None and self._clock.now() - at < PEACE else 0

    def _done(self, task: asyncio.Task[None]) -> None:
        self._held.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not isinstance(failure, EngineError):
            log.error("task %s failed", task.get_name(), exc_info=failure)


async def within(seconds: float, event: asyncio.Event, clock: Clock) -> None:
    """Wait until the event is set, at most this many seconds."""
    nap = asyncio.ensure_future(clock.sleep(seconds))
    news = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({nap, news}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        nap.cancel()
        news.cancel()
