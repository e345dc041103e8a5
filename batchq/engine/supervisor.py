"""The supervisor: holds every background task by name, and restarts loops that fail. Also a wait with a timeout."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta

from batchq.errors import ContainerRuntimeError
from batchq.ports.clock import Clock

log = logging.getLogger(__name__)

FIRST_PAUSE, MAX_PAUSE = 1.0, 30.0  # seconds before a failed loop starts again

MAX_DOUBLINGS = 5  # of FIRST_PAUSE; the result exceeds MAX_PAUSE

FAILURE_WINDOW = timedelta(minutes=5)  # without a failure, after which the failures of a loop are counted from 0 again

FAILING_WINDOW = timedelta(minutes=1)  # after its last failure a loop no longer counts as failing

CANCEL_AGAIN = 1.0  # seconds: a library can lose a cancellation that comes with the result of what it awaits

MIN_FAILURES = 3  # failures, the last within FAILING_WINDOW: the loop counts as failing


class Supervisor:
    """Runs background tasks and restarts supervised loops."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        #: By loop, its failures until FAILURE_WINDOW passed without one.
        self._failures: dict[str, int] = {}
        self._failed_at: dict[str, datetime] = {}

    def spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Run the coroutine as a task. An exception other than ContainerRuntimeError is logged."""
        _ = self.task(name, work)

    def task(self, name: str, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Like `spawn`, but return the task."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def supervise(self, name: str, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a loop that should never end.

        If it ends or fails, it is restarted after a pause that doubles with each failure.
        """
        self._failures[name] = 0
        self._start(name, loop, 0.0)

    def health(self) -> dict[str, str]:
        """The state of each loop: `ok`, or how often it has failed recently and whether it keeps failing, as text."""
        return {name: self._loop_health(name) for name in self._failures}

    @property
    def failing(self) -> tuple[str, ...]:
        """The names of the loops that fail each time they are restarted."""
        return tuple(name for name in self._failures if self._keeps_failing(name))

    @property
    def names(self) -> list[str]:
        """The names of the running tasks, sorted."""
        return sorted(task.get_name() for task in self._tasks)

    async def drain(self, max_seconds: float) -> None:
        """Wait until only the supervised loops are running, at most `max_seconds`."""
        deadline = asyncio.ensure_future(self._clock.sleep(max_seconds))
        try:
            while not deadline.done() and (
                work := {task for task in self._tasks if task.get_name() not in self._failures}
            ):
                await asyncio.wait({deadline, *work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            deadline.cancel()

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended. A task that ignores a cancellation is cancelled again."""
        while self._tasks:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CANCEL_AGAIN)

    def _start(self, name: str, loop: Callable[[], Coroutine[None, None, None]], pause: float) -> None:
        task = self.task(name, self._run_after(pause, loop) if pause else loop())
        task.add_done_callback(lambda done: self._restart(name, loop, done))

    async def _run_after(self, pause: float, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        await self._clock.sleep(pause)
        await loop()

    def _restart(self, name: str, loop: Callable[[], Coroutine[None, None, None]], done: asyncio.Task[None]) -> None:
        """Restart the loop unless it was cancelled.

        A task also ends as cancelled if an awaited task was cancelled; such a loop is restarted.
        """
        if done.cancelled() and done.cancelling():
            return
        before = self._recent_failures(name)
        self._failures[name], self._failed_at[name] = before + 1, self._clock.now()
        pause = min(FIRST_PAUSE * 2 ** min(before, MAX_DOUBLINGS), MAX_PAUSE)
        log.warning("loop %s ended; it is restarted in %.0f s", name, pause)
        self._start(name, loop, pause)

    def _loop_health(self, name: str) -> str:
        count = self._recent_failures(name)
        if not count:
            return "ok"
        return f"restarted {count} times{' and keeps failing' if self._keeps_failing(name) else ''}"

    def _keeps_failing(self, name: str) -> bool:
        return (
            self._recent_failures(name) >= MIN_FAILURES and self._clock.now() - self._failed_at[name] < FAILING_WINDOW
        )

    def _recent_failures(self, name: str) -> int:
        """How often a loop has failed without FAILURE_WINDOW in between."""
        at = self._failed_at.get(name)
        return self._failures[name] if at is not None and self._clock.now() - at < FAILURE_WINDOW else 0

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not isinstance(failure, ContainerRuntimeError):
            log.error("task %s failed", task.get_name(), exc_info=failure)


async def wait_at_most(seconds: float, event: asyncio.Event, clock: Clock) -> None:
    """Wait until the event is set, at most this many seconds."""
    deadline = asyncio.ensure_future(clock.sleep(seconds))
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({deadline, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        deadline.cancel()
        waiter.cancel()
