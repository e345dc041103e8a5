"""Remembers the result of the last placement pass, so that a pass that can place nothing is skipped.

The result holds from one saved unit of work to the next, updated by the jobs that begin or cease to wait.
"""

from collections.abc import Collection, Iterable, Mapping

from batchq.domain.ids import QueueName
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.domain.scheduling.fairshare import Change
from batchq.engine.scheduling.placement_pass import PassResult
from batchq.engine.unit_of_work import Committed


class PassMemo:
    """What the last saved placement pass found."""

    def __init__(self) -> None:
        #: Queues without waiting jobs.
        self.empty_queues: set[QueueName] = set()
        #: Queues in which no job behind the head can start, with the head's order.
        self._full_queues: Mapping[QueueName, int] = {}
        #: The result of the pass in the present unit of work.
        self._staged: PassResult | None = None

    def clear(self) -> None:
        """Drop the results: capacity or the catalog may have changed."""
        self.empty_queues = set()
        self._full_queues = {}

    def begin(self) -> None:
        self._staged = None

    def stage(self, result: PassResult) -> None:
        self._staged = result

    def nothing_queued(self, queues: Collection[QueueName], changes: Iterable[Change]) -> bool:
        """Whether no job waits in these queues, with the changes of the unit of work applied."""
        return self.empty_queues.issuperset(queues) and not any(is_queued_for_placement(after) for _, after in changes)

    def needs_pass(self, changed: Mapping[QueueName, int]) -> bool:
        """Whether a pass is needed because of jobs that began or ceased to wait.

        `changed`: by queue, the lowest of their orders.
        """
        return any(order <= self._full_queues.get(queue, order) for queue, order in changed.items())

    def on_committed(self, committed: Committed) -> None:
        if self._staged is not None:
            self._full_queues = self._staged.full_queues
            seen = self._staged.complete_queues.items()
            self.empty_queues |= {
                queue for queue, line in seen if all(committed.unit.touched(it.job_id) for it in line)
            }
        if self.empty_queues:
            self.empty_queues -= {after.spec.queue for _, after in committed.changes if is_queued_for_placement(after)}
