"""What the last look at the lines has shown, so that no unit of work looks again where it can find nothing.

It holds from one saved unit of work to the next: whoever comes to wait, or waits no more, is held against it.
"""

from collections.abc import Collection, Iterable, Mapping

from batchq.domain.ids import QueueName
from batchq.domain.scheduling.capacity import stands_in_line
from batchq.domain.scheduling.fairshare import Change
from batchq.engine.scheduling.placement_pass import Filled
from batchq.engine.unit_of_work import Committed


class PassMemo:
    """`nobody` are queues of which it is known that nobody stands in them."""

    def __init__(self) -> None:
        self.nobody: set[QueueName] = set()
        self._full: Mapping[QueueName, int] = {}
        self._staged: Filled | None = None

    def forget(self) -> None:
        """What there is, or who may have it, may be something else."""
        self.nobody = set()
        self._full = {}

    def begin(self) -> None:
        self._staged = None

    def stage(self, filled: Filled) -> None:
        self._staged = filled

    def is_bare(self, queues: Collection[QueueName], changes: Iterable[Change]) -> bool:
        """Whether nobody stands in any of these queues, nor comes to by these changes."""
        return self.nobody.issuperset(queues) and not any(stands_in_line(after) for _, after in changes)

    def concerns(self, stirred: Mapping[QueueName, int]) -> bool:
        """Whether somebody may start, or stand first, because of those who came to wait or went: the first by queue."""
        return any(order <= self._full.get(queue, order) for queue, order in stirred.items())

    def on_committed(self, committed: Committed) -> None:
        if self._staged is not None:
            self._full = self._staged.full
            seen = self._staged.through.items()
            self.nobody |= {queue for queue, line in seen if all(committed.unit.touched(it.job_id) for it in line)}
        if self.nobody:
            self.nobody -= {after.spec.queue for _, after in committed.changes if stands_in_line(after)}
