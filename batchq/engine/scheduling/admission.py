"""How many jobs of each account wait, and how many for others: counted when read, and followed from unit to unit."""

from collections import Counter

from batchq.domain.access.accounts import AccountName
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.damage import is_damaged
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.quotas import Quotas, made, queued, too_many
from batchq.engine.account_limits import Accounts
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import Invalid
from batchq.ports.jobs import JobStore


class QueuedJobs:
    """`waiting` is as last saved; beside it, what the unit of work under way has taken.

    `for_others`: how many times one that is stored waits for another job. Where none does, nobody need be looked for.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self.waiting: Counter[AccountName] = Counter()
        self.for_others = 0
        self._unit: UnitOfWork | None = None
        self._quotas: Quotas
        self._there: dict[AccountName, int] = {}

    async def load(self, store: JobStore) -> None:
        self.waiting = Counter(await store.queued())
        self.for_others = await store.waiting_for_others()
        self._unit = None

    def admit(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Count a job that the unit of work takes. Raises Invalid when it would be more than some account may have."""
        if unit is not self._unit:
            self._unit, self._quotas, self._there = unit, self._accounts.quotas(), {}
        more, binding = made(spec.array_size), self._quotas.on(spec.owner.account)
        if not binding:
            return
        there = {it.name: self._have(it.name) for it in binding if it.limits.queued is not None}
        refused = (too_many(it, there=there[it.name], more=more) for it in binding if it.name in there)
        why = next(filter(None, refused), None)
        if why is not None:
            raise Invalid(why)
        self._there |= {name: number + more for name, number in there.items()}

    def on_committed(self, committed: Committed) -> None:
        for before, after in committed.changes:
            if before is not None and before.status is after.status and before.family is after.family:
                continue
            more = queued(after) - (0 if before is None else queued(before))
            if more:
                self._count(after.spec.owner.account, more)
            if after.spec.depends_on:
                self.for_others += _for_others(after) - (0 if before is None else _for_others(before))
        self._unit = None

    def _count(self, account: AccountName, more: int) -> None:
        """An account of which none waits is forgotten."""
        self.waiting[account] += more
        if self.waiting[account] <= 0:
            del self.waiting[account]

    def _have(self, limited: AccountName) -> int:
        """What it and all below it have, summed once a unit of work."""
        if limited in self._there:
            return self._there[limited]
        bound = (it for it in self.waiting if any(above.name == limited for above in self._quotas.on(it)))
        return sum(self.waiting[it] for it in bound)


def _for_others(job: Job) -> int:
    """One that is damaged may only seem to wait. Better one too many is counted than that nobody is looked for."""
    return len(waits_for(job)) if waits(job) and not is_damaged(job) else 0
