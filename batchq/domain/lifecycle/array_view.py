"""The view of an array with a stop order that is not yet written to the rows of all children. Pure. Decision 0027.

From the commit that saves the order no child starts any more: each queued child has ended, and the array has ended when
no child is active. The rows of the children are written in batches. Until then readers get what the rows will contain,
computed by the same function.
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
    """Apply to a child the order of its array `parent` that has not been applied yet, if there is one.

    A queued child ends at the time of the order, or of its own creation if that is later.
    """
    order = arrays.order_to(child, parent)
    if order is None:
        return child, ()
    ordered_at = None if parent.array_state is None else parent.array_state.ordered_at
    ends_at = now if ordered_at is None or child.status not in QUEUED else max(ordered_at, child.created_at)
    return step(child, order, ends_at)


class PendingArrayOrders(Struct, frozen=True):
    """The arrays with an order that may not have been applied to all children.

    Take this value before reading jobs from the store, and pass each job through `project`. A row that is read later
    can only have progressed further, so a job that was shown as ended once is always shown as ended.
    """

    #: By id, as last saved.
    parents: Mapping[JobId, Job] = field(default_factory=dict)

    def project(self, job: Job) -> Job:
        """The job as it is to be shown: a queued child, or a PENDING array, as it will be once the order is applied."""
        if job.child is None:
            known = self.parents.get(job.id) if job.status is Status.PENDING else None
            return job if known is None else arrays.projected(job, _ended_at(known))
        parent = self.parents.get(job.child.parent)
        return job if parent is None or job.status not in QUEUED else apply_order(job, parent, job.created_at)[0]

    @property
    def ended_arrays(self) -> frozenset[int]:
        """The `Job.order` of each array that has ended."""
        return frozenset(it.order for it in self.parents.values() if _ended_at(it) is not None)

    @property
    def ends(self) -> Mapping[int, datetime]:
        """When each array that has ended did end, by `Job.order`."""
        return {it.order: at for it in self.parents.values() if (at := _ended_at(it)) is not None}


def has_pending_order(job: Job) -> bool:
    """Whether the array has a stop order that may not have been applied to all children.

    False for an order that an older version saved without a time: its children are shown as stored.
    """
    return arrays.at_work(job) and job.array_state is not None and job.array_state.ordered_at is not None


def _ended_at(parent: Job) -> datetime | None:
    return None if parent.array_state is None else parent.array_state.ended_at
