"""Remembers the result of the last placement pass, so that a pass that can place nothing is skipped.

The result holds from one saved unit of work to the next, updated by the jobs that begin or cease to wait.
"""

from collections.abc import Collection, Iterable, Mapping

from batchq.domain.ids import QueueName
from batchq.domain.scheduling.capacity import stands_in_line
from batchq.domain.scheduling.fairshare import Change
from batchq.engine.scheduling.placement_pass import Filled
from batchq.engine.unit_of_work import Committed


class PassMemo:
    """What the last saved placement pass found."""

    def __init__(self) -> None:
        #: Queues without waiting jobs.
        self.nobody: set[QueueName] = set()
        #: Queues in which no job behind the head can start, with the head's order.
        self._full: Mapping[QueueName, int] = {}
        #: The result of the pass in the present unit of work.
        self._staged: Filled | None = None

    def forget(self) -> None:
        """Drop the results: capacity or the catalog may have changed."""
        self.nobody = set()
        self._full = {}

    def begin(self) -> None:
        self._staged = None

    def stage(self, filled: Filled) -> None:
        self._staged = filled

    def is_bare(self, queues: Collection[QueueName], changes: Iterable[Change]) -> bool:
        """Whether no job waits in these queues, with the changes of the unit of work applied."""
        return self.nobody.issuperset(queues) and not any(stands_in_line(after) for _, after in changes)

    def concerns(self, stirred: Mapping[QueueName, int]) -> bool:
        """Whether a pass is needed because of jobs that began or ceased to wait.

        `stirred`: by queue, the lowest of their orders.
        """
        return any(order <= self._full.get(queue, order) for queue, order in stirred.items())

    def on_committed(self, committed: Committed) -> None:
        if self._staged is not None:
            self._full = self._staged.full
            seen = self._staged.through.items()
            self.nobody |= {queue for queue, line in seen if all(committed.unit.touched(it.job_id) for it in line)}
        if self.nobody:
            self.nobody -= {after.spec.queue for _, after in committed.changes if stands_in_line(after)}
