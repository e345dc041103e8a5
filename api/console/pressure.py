"""How busy the server is: then open pages fetch their live parts less often, because the engine comes first."""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from math import ceil

WINDOW = 5.0  # seconds over which rendering is measured
MAX_SHARE = 0.05  # of a core, for rendering
MAX_DELAY = timedelta(seconds=0.1)  # of the event loop
FIRST_CALM, MAX_CALM = 5, 30  # seconds between two fetches of a page


class Pressure:
    """Measures the time that rendering takes, and the delay of the event loop."""

    def __init__(self, delay: Callable[[], timedelta]) -> None:
        """`delay`: by how much the event loop was late, when it was last measured."""
        self._delay = delay
        #: When each page of the last seconds was rendered, and the seconds that it took.
        self._renderings: deque[tuple[float, float]] = deque()
        self._seconds = 0.0

    def rendered(self, seconds: float) -> None:
        """Record that a page or a part of one was rendered."""
        self._renderings.append((asyncio.get_running_loop().time(), seconds))
        self._seconds += seconds
        self._forget()

    @property
    def calm(self) -> int:
        """The seconds that a page waits between two fetches at least; 0 while the server is not busy."""
        self._forget()
        excess = max(self._seconds / (WINDOW * MAX_SHARE), self._delay() / MAX_DELAY)
        return min(MAX_CALM, ceil(FIRST_CALM * excess)) if excess > 1 else 0

    def _forget(self) -> None:
        oldest = asyncio.get_running_loop().time() - WINDOW
        while self._renderings and self._renderings[0][0] < oldest:
            self._seconds -= self._renderings.popleft()[1]
