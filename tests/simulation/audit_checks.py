"""Who did what is saved with what he did: held against each commit."""

from batchq.domain.ids import child_id
from batchq.domain.job import Job
from batchq.ports.jobs import Changes
from tests.simulation.run_log import RunLog


class AuditChecks:
    def __init__(self, *, run_log: RunLog) -> None:
        self._run_log = run_log
        self._orders: dict[str, tuple[str | None, ...]] = {}

    def written(self, changes: Changes) -> None:
        """Every job somebody submitted has its act, and so has every order; and no act is of what did not change."""
        audited = [it.about.removeprefix("job/") for it in changes.acts if it.about.startswith("job/")]
        changed = {job.id for job in (*changes.inserted, *changes.updated)}
        # An order to a child that is not spawned yet is saved in the row of its array.
        changed |= {
            child_id(job.id, index) for job in changes.updated for order in job.child_orders for index in order.indices
        }
        for job in (it for it in changes.inserted if it.child is None):
            if audited.count(job.id) < 1:
                self._run_log.fail("acts", f"{job.id} was submitted, and nobody is known to have done it")
        for about in audited:
            if about.partition("#")[0] not in changed:
                self._run_log.fail("acts", f"somebody is said to have changed {about}, which has not changed")
        for job in changes.updated:
            self._ordered(job, audited)
        self._orders |= {job.id: _orders(job) for job in (*changes.inserted, *changes.updated)}

    def _ordered(self, job: Job, audited: list[str]) -> None:
        """What a user asked for says so; what follows from a time limit, or of an array, nobody did."""
        before = self._orders.get(job.id, ())
        by_user = any("a user" in str(it) for it in _orders(job) if it not in before)
        if by_user and job.child is None and job.id not in {it.partition("#")[0] for it in audited}:
            self._run_log.fail("acts", f"{job.id} was ordered to stop, and nobody is known to have done it")


def _orders(job: Job) -> tuple[str | None, ...]:
    return job.stop and job.stop.reason, job.cancelled
