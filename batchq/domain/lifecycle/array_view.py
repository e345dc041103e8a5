"""What an order to an array has decided, though the rows of its children do not say so yet. Pure.

From the commit that saves the order none of them starts any more. So each that waits is over from then on, and so is
the array when none is under way. Their rows are written a few a unit; what is shown meanwhile is what they will say.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from batchq.domain.ids import JobId
from batchq.domain.job import QUEUED, Job, Status
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.status import Outcome
from batchq.domain.lifecycle.transitions import step


def apply_order(child: Job, parent: Job, now: datetime) -> Outcome:
    """What its array was told and it has not heard. One that waits ended when the array was told, or at its birth."""
    order = arrays.order_to(child, parent)
    if order is None:
        return child, ()
    ordered_at = None if parent.family is None else parent.family.ordered_at
    ends_at = now if ordered_at is None or child.status not in QUEUED else max(ordered_at, child.created_at)
    return step(child, order, ends_at)


class Sealed(Struct, frozen=True):
    """The arrays under order of whose children some may not have heard, as they were saved.

    What is read after this was taken is shown by it: then what was once shown as over is never shown otherwise.
    """

    parents: Mapping[JobId, Job] = field(default_factory=dict)

    def shown(self, job: Job) -> Job:
        if job.child is None:
            return self._shown_array(job)
        parent = self.parents.get(job.child.parent)
        return job if parent is None or job.status not in QUEUED else apply_order(job, parent, job.created_at)[0]

    @property
    def over(self) -> frozenset[int]:
        """The orders of the arrays that are over."""
        return frozenset(it.order for it in self.parents.values() if _over_at(it) is not None)

    def _shown_array(self, job: Job) -> Job:
        """As far as was known then: it may have come further since."""
        known = self.parents.get(job.id)
        return job if known is None or job.status is not Status.PENDING else arrays.foreseen(job, _over_at(known))


def is_sealing(job: Job) -> bool:
    """Whether it was told to end, and some of its children may not have heard. Older orders have no moment."""
    return arrays.at_work(job) and job.family is not None and job.family.ordered_at is not None


def _over_at(parent: Job) -> datetime | None:
    return None if parent.family is None else parent.family.over_at
