"""A set of job sequences stored as intervals, because one user's jobs mostly have consecutive sequences. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator


def merged(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join adjacent and overlapping intervals (first, last). The input must be ascending by `first`."""
    run = None
    for first, last in runs:
        if run is not None and first <= run[1] + 1:
            run = run[0], max(last, run[1])
        else:
            if run is not None:
                yield run
            run = first, last
    if run is not None:
        yield run


class IntervalSet:
    """A set of sequences. `runs`: intervals (first, last), both included, in any order; they may overlap."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        few = list(merged(sorted(runs)))
        self._firsts = [first for first, _ in few]
        self._lasts = [last for _, last in few]

    def __contains__(self, sequence: int) -> bool:
        run = bisect_right(self._firsts, sequence) - 1
        return run >= 0 and sequence <= self._lasts[run]

    def end(self, sequence: int) -> int:
        """The last sequence of the interval that contains `sequence`; `sequence` itself if none does."""
        return self._lasts[bisect_right(self._firsts, sequence) - 1] if sequence in self else sequence
