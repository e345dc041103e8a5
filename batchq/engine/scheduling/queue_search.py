"""Where the search behind blocked heads goes on: a unit looks at few jobs, the next searches continue behind them.

A search passes each job of a queue once after room may have come free, in a circle: what happens meanwhile, at whatever
rate, lengthens it by at most one circle and never makes it begin at the front again. Decision 0039.
"""

from collections.abc import Mapping

from msgspec import Struct

from batchq.domain.ids import QueueName


class Position(Struct, frozen=True, kw_only=True):
    """A search of one queue. All are orders of jobs."""

    #: The last job that was passed.
    after: int = -1
    #: Where the search ends; None: at the end of the queue.
    until: int | None = None
    #: Up to where it continues from the front of the queue once it has come to the end; None: it does not.
    wraps: int | None = None

    def from_front(self) -> "Position | None":
        """At the end of the queue; None where the search is over."""
        return None if self.wraps is None else Position(until=self.wraps)

    def whole_circle(self) -> "Position":
        return Position(after=self.after, wraps=self.after)


Searches = Mapping[QueueName, Position]
NO_SEARCH: Searches = {}


def follow(
    searched: Searches, cut: Mapping[QueueName, int], stirred: Mapping[QueueName, int], *, grown: bool
) -> Searches:
    """The searches after a unit. `searched`: as far as this unit took them, those that are over left out.

    `cut`: the queues behind whose head there are more jobs than a unit looks at, and room for some, with the last job
    that was looked at. `stirred`: the first job of a queue that came to wait in it. `grown`: there may be more room.
    """
    positions = {}
    for queue, last in cut.items():
        position, first = searched.get(queue), stirred.get(queue)
        if position is None and grown:
            positions[queue] = Position(after=last)
        elif position is None and first is not None:
            positions[queue] = Position(after=max(last, first - 1))
        elif position is not None:
            passed = first is not None and (first <= position.after or position.until is not None)
            positions[queue] = position.whole_circle() if grown or passed else position
    return positions
