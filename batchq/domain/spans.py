"""Many orders of jobs, kept as runs without a gap: what belongs to one submitter mostly follows on each other."""

from bisect import bisect_right
from collections.abc import Iterable


class Spans:
    """`runs` are first and last orders, in any order; they may overlap."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(runs):
            if self._lasts and first <= self._lasts[-1] + 1:
                self._lasts[-1] = max(last, self._lasts[-1])
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def __contains__(self, order: int) -> bool:
        run = bisect_right(self._firsts, order) - 1
        return run >= 0 and order <= self._lasts[run]

    def end(self, order: int) -> int:
        """The last of the run that it is in, itself where it is in none."""
        return self._lasts[bisect_right(self._firsts, order) - 1] if order in self else order
