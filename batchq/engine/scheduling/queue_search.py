"""Positions of the searches behind blocked heads: a unit of work tries few jobs, later ones continue behind them.

A search passes each job of a queue once after resources may have become free, in a circle. Later changes, at any rate,
lengthen it by at most one circle and never restart it at the front. Decision 0039.
"""

from collections.abc import Mapping

from msgspec import Struct

from batchq.domain.ids import QueueName


class SearchPosition(Struct, frozen=True, kw_only=True):
    """The position of the search in one queue, in orders of jobs."""

    #: The last job that was passed.
    after: int = -1
    #: The job at which the search ends; None: at the end of the queue.
    until: int | None = None
    #: The job up to which it continues from the front after the end of the queue; None: it ends there.
    wraps: int | None = None

    def from_front(self) -> "SearchPosition | None":
        """The position at the end of the queue: back at the front, or None if the search is finished."""
        return None if self.wraps is None else SearchPosition(until=self.wraps)

    def whole_circle(self) -> "SearchPosition":
        """The search extended to one full circle from its present position."""
        return SearchPosition(after=self.after, wraps=self.after)


Searches = Mapping[QueueName, SearchPosition]
NO_SEARCH: Searches = {}


def next_searches(
    current: Searches, unread: Mapping[QueueName, int], changed: Mapping[QueueName, int], *, capacity_freed: bool
) -> Searches:
    """The searches after a unit of work.

    `current`: the searches as this unit left them, without finished ones. `unread`: queues with free capacity and more
    jobs behind the head than one unit tries, with the last job that was tried. `changed`: by queue, the lowest order of
    the jobs that entered or left RUNNABLE. `capacity_freed`: whether more resources may be free.
    """
    positions = {}
    for queue, last in unread.items():
        position, first = current.get(queue), changed.get(queue)
        if position is None and capacity_freed:
            positions[queue] = SearchPosition(after=last)
        elif position is None and first is not None:
            positions[queue] = SearchPosition(after=max(last, first - 1))
        elif position is not None:
            passed = first is not None and (first <= position.after or position.until is not None)
            positions[queue] = position.whole_circle() if capacity_freed or passed else position
    return positions
