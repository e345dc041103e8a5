"""Which jobs a bulk stop means: read beside the scheduler, so that no commit waits for it, and yet exact at the commit.

The commit that saves the order decides. A job that did not change between the read and that commit is as it was read;
the others are few, and the commit looks at them again. So the result is the same as if it had looked at all jobs.
"""

from contextlib import AbstractAsyncContextManager
from weakref import ref

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.bulk_stop import Candidates, JobFilter
from batchq.engine.messages import BulkStopRequest
from batchq.ports.bulk_stops import BulkStopStore
from batchq.ports.jobs import Changes
from batchq.throttling import ConcurrencyLimit

MAX_CHANGED = 5000  # jobs that a commit looks at again, before it is better to read anew
MAX_WAITING = 15  # bulk stops of one user that wait while another of his is decided


class Choosing:
    """One read of a user at a time: the next waits for it."""

    def __init__(self, store: BulkStopStore) -> None:
        self._store = store
        #: Of each read that is of use: the orders of the jobs changed since it began.
        self._reads: list[ref[_Orders]] = []
        self._one_at_a_time = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)

    def changed(self, changes: Changes) -> None:
        """A commit has ended, whether or not it is known that it was saved."""
        if self._reads:
            self._reads = [it for it in self._reads if it() is not None]
            orders = {job.order for jobs in (changes.inserted, changes.updated) for job in jobs}
            for read in [it() for it in self._reads]:
                if read is not None:
                    read.update(orders)

    def turn_of(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Wait for the same user's earlier bulk stops. Raises TooOften when it is entered."""
        return self._one_at_a_time.of(caller.user)

    async def candidates(self, selection: JobFilter) -> Candidates:
        """The jobs that are meant now. As long as they are held anywhere it is followed which of all jobs change."""
        changed = _Orders()
        self._reads.append(ref(changed))  # before the read begins, so that no commit comes between
        return Candidates(places=await self._store.candidates(selection), changed=changed)


def outdated(message: BulkStopRequest) -> bool:
    """Whether it is better to read anew than to look at all the jobs that have changed since."""
    return not message.final and message.candidates is not None and len(message.candidates.changed) > MAX_CHANGED


class _Orders(set[int]):
    """A set that may be referred to weakly: it is of use only as long as a request is under way."""
