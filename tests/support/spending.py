"""What work costs, counted in CPU of the thread that does it: a machine that is busy adds little to that."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 1.0


@contextmanager
def little_spent() -> Iterator[None]:
    """What is done within takes thousandths of this; what grows beyond measure would take minutes."""
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
