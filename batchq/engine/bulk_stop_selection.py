"""Selects the jobs of a bulk stop: read before its unit of work, so that no commit waits, and exact at the commit.

The commit that saves the bulk stop decides. A job that did not change between the read and that commit is as it was
read. The commit examines the few changed jobs again, so the result is the same as if it had examined all jobs.
"""

from contextlib import AbstractAsyncContextManager
from weakref import ref

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.bulk_stop import Candidates, JobFilter
from batchq.engine.messages import BulkStopRequest
from batchq.ports.bulk_stops import BulkStopStore
from batchq.ports.jobs import Changes
from batchq.throttling import ConcurrencyLimit

MAX_CHANGED = 5000  # jobs that a commit examines again; if more have changed, the candidates are read again
MAX_WAITING = 15  # bulk stops of one user that wait while another one of the same user is being selected


class CandidateReader:
    """Reads candidates, and follows which jobs change afterwards.

    One read of a user at a time: the next waits for it.
    """

    def __init__(self, store: BulkStopStore) -> None:
        self._store = store
        #: For each read in use, the orders of the jobs that changed since it began.
        self._reads: list[ref[_ChangedOrders]] = []
        self._one_at_a_time = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)

    def record_changes(self, changes: Changes) -> None:
        """Record the changed jobs after a commit, even if it is not known whether the commit was saved."""
        if self._reads:
            self._reads = [it for it in self._reads if it() is not None]
            orders = {job.order for jobs in (changes.inserted, changes.updated) for job in jobs}
            for read in [it() for it in self._reads]:
                if read is not None:
                    read.update(orders)

    def after_earlier_of(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Wait for the same user's earlier bulk stops. Entering it raises Throttled."""
        return self._one_at_a_time.of(caller.user)

    async def candidates(self, selection: JobFilter) -> Candidates:
        """The jobs that match now. While the result is referenced, changed jobs are added to its `changed`."""
        changed = _ChangedOrders()
        self._reads.append(ref(changed))  # before the read begins, so that no commit comes between
        return Candidates(places=await self._store.candidates(selection), changed=changed)


def must_read_again(message: BulkStopRequest) -> bool:
    """Whether so many jobs have changed since the read that the candidates should be read again."""
    return not message.final and message.candidates is not None and len(message.candidates.changed) > MAX_CHANGED


class _ChangedOrders(set[int]):
    """A set that supports weak references: changes are recorded only while a request uses the set."""
