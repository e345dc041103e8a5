"""The cost of work, in CPU time of its thread: load of the machine adds little."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 1.0


@contextmanager
def little_spent() -> Iterator[None]:
    """Fail if the work takes a second of CPU, a thousand times the usual cost."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < SECONDS


def spent_on(work: Callable[[], object], *, tries: int = 3) -> float:
    """Seconds, at the least of some tries."""
    return min(_spent_once(work) for _ in range(tries))


def _spent_once(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
