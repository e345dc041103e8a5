"""How many jobs have each status: the children of an array, or the jobs of a group. Pure."""

from collections import Counter
from collections.abc import Iterable

from batchq.domain.enums import Status

#: Ascending by status; statuses without jobs are omitted.
StatusCounts = tuple[tuple[Status, int], ...]
#: The status of some jobs before and after a change, and their number. None: they were not counted, or are not counted
#: any more.
StatusMove = tuple[Status | None, Status | None, int]


def counts_after(counts: StatusCounts, moves: Iterable[StatusMove]) -> StatusCounts:
    """The counts after these changes."""
    after = Counter(dict(counts))
    for before, status, number in moves:
        if status is not None:
            after[status] += number
        if before is not None:
            after[before] -= number
    return tuple((status, after[status]) for status in Status if after.get(status))
