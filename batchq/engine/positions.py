"""Since when a waiting job stands where it stands: the last time that one before it came or went.

Kept in memory only: nothing is known of the time before the start of the server.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime

from batchq.domain.fairshare import Change
from batchq.domain.names import QueueName
from batchq.domain.placement import stands_in_line

MOST = 128  # steps of a queue: nobody asks about later positions


class Positions:
    """Of each queue a stair: orders, ascending, and when a job of that order was the last to come or go before them.

    In a queue that goes by shares the one that goes may have stood before all others.
    """

    def __init__(self, since: datetime) -> None:
        self._since = since
        self._stairs: dict[QueueName, tuple[list[int], list[datetime]]] = {}

    def adopt(self, changes: Iterable[Change], now: datetime) -> None:
        first: dict[QueueName, int] = {}
        for before, after in changes:
            if before is not None and before.status is after.status and before.misfit is after.misfit:
                continue
            waited, waits = before is not None and stands_in_line(before), stands_in_line(after)
            if waited != waits:
                order = -1 if waited and after.spec.share_identifier is not None else after.order
                first[after.spec.queue] = min(order, first.get(after.spec.queue, order))
        for queue, order in first.items():
            self._step(queue, order, now)

    def since(self, queue: QueueName, order: int) -> datetime:
        orders, times = self._stairs.get(queue, ([], []))
        step = bisect_right(orders, order) - 1
        return times[step] if step >= 0 else self._since

    def _step(self, queue: QueueName, order: int, now: datetime) -> None:
        """What stood behind it stands somewhere else from now on."""
        orders, times = self._stairs.setdefault(queue, ([], []))
        keep = bisect_left(orders, order)
        if keep < MOST:
            del orders[keep:], times[keep:]
            orders.append(order)
            times.append(now)
