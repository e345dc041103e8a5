"""Many orders of jobs, kept as runs without a gap: what belongs to one submitter mostly follows on each other."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator


def merged(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Runs, ascending by their first, as few as they come to."""
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
    """`runs` are first and last orders, in any order; they may overlap."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        few = list(merged(sorted(runs)))
        self._firsts = [first for first, _ in few]
        self._lasts = [last for _, last in few]

    def __contains__(self, order: int) -> bool:
        run = bisect_right(self._firsts, order) - 1
        return run >= 0 and order <= self._lasts[run]

    def end(self, order: int) -> int:
        """The last of the run that it is in, itself where it is in none."""
        return self._lasts[bisect_right(self._firsts, order) - 1] if order in self else order
