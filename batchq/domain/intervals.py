"""A set of job orders stored as intervals, because one user's jobs mostly have consecutive orders. Pure."""

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
    """A set of orders. `runs`: intervals (first, last), both included, in any order; they may overlap."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        few = list(merged(sorted(runs)))
        self._firsts = [first for first, _ in few]
        self._lasts = [last for _, last in few]

    def __contains__(self, order: int) -> bool:
        run = bisect_right(self._firsts, order) - 1
        return run >= 0 and order <= self._lasts[run]

    def end(self, order: int) -> int:
        """The last order of the interval that contains `order`; `order` itself if none does."""
        return self._lasts[bisect_right(self._firsts, order) - 1] if order in self else order
