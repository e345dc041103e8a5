"""Durations that a loaded machine does not change: CPU time of a thread, and real time without the machine's pauses."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CPU_LIMIT = 1.0  # seconds
TICK = 0.005  # seconds


@contextmanager
def little_cpu() -> Iterator[None]:
    """Fail if the block takes a second of CPU, a thousand times the usual cost."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < CPU_LIMIT


def cpu_seconds(work: Callable[[], object], *, tries: int = 3) -> float:
    """Seconds of CPU of this thread, the least of some tries."""
    return min(_cpu_once(work) for _ in range(tries))


def _cpu_once(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


class Pauses:
    """Records, in its context, when this machine did not run a thread that was due.

    Such a pause does not count as slowness of a server.
    """

    def __init__(self):
        self._recorded = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def seconds(self, began, ended):
        """The seconds between two times of `time.monotonic`, without the recorded pauses. Call it after the block."""
        return ended - began - sum(max(0, min(ended, last) - max(began, first)) for first, last in self._recorded)

    def _tick(self):
        due = time.monotonic() + TICK
        while not self._over.wait(TICK):
            now = time.monotonic()
            if now > due + TICK:
                self._recorded.append((due, now))
            due = time.monotonic() + TICK
