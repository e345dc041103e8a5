"""The recent samples of a running container: a bounded number of them, over its whole run. In memory only."""

from array import array
from collections.abc import Iterator
from datetime import timedelta

from batchq.domain.times import EPOCH
from batchq.domain.use import Use
from batchq.domain.use_points import UsePoint

MAX_POINTS = 128  # of one container; then every second one is dropped
UNKNOWN = -1.0  # in place of a figure that was not measured

_SECOND = timedelta(seconds=1)


class UseSeries:
    """Samples by time. Their distance doubles whenever the series is full, so it spans the whole run."""

    def __init__(self) -> None:
        #: Three figures for each sample: seconds since the epoch, CPU seconds and bytes.
        self._figures = array("d")
        self._distance = 0.0
        #: The last sample, which the series may leave out.
        self.newest: Use | None = None

    def add(self, use: Use) -> None:
        """Add a sample, unless it is too near to the last one."""
        self.newest = use
        at = (use.sampled_at - EPOCH) / _SECOND
        if self._figures and at - self._figures[-3] < self._distance:
            return
        cpu_seconds = UNKNOWN if use.cpu_seconds is None else use.cpu_seconds
        self._figures.extend((at, cpu_seconds, UNKNOWN if use.working_set is None else use.working_set))
        if len(self._figures) >= 3 * MAX_POINTS:
            kept = array("d")
            for start in range(0, len(self._figures), 6):
                kept.extend(self._figures[start : start + 3])
            length = self._figures[-3] - self._figures[0]
            self._figures, self._distance = kept, 2 * length / MAX_POINTS

    def points(self) -> Iterator[UsePoint]:
        for start in range(0, len(self._figures), 3):
            at, cpu_seconds, memory = self._figures[start : start + 3]
            yield UsePoint(
                at=EPOCH + timedelta(seconds=at),
                cpu_seconds=None if cpu_seconds == UNKNOWN else cpu_seconds,
                memory=None if memory == UNKNOWN else memory,
            )
