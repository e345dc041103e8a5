"""Checks at each commit: every change by a caller is saved together with its audit record."""

from batchq.domain.access.accounts import UserName
from batchq.domain.ids import child_id
from batchq.domain.job import Job
from batchq.domain.stop_orders import StopKind
from batchq.ports.jobs import Changes
from tests.simulation.run_log import RunLog


class AuditChecks:
    def __init__(self, *, run_log: RunLog) -> None:
        self._run_log = run_log
        self._orders: dict[str, frozenset[tuple[StopKind, str, UserName]]] = {}

    def written(self, changes: Changes) -> None:
        """Each submission and stop order has an audit record, and no audit record names an unchanged job."""
        audited = [it.resource.removeprefix("job/") for it in changes.audit_records if it.resource.startswith("job/")]
        changed = {job.id for job in (*changes.inserted, *changes.updated)}
        # An order to a child that is not spawned yet is saved in the row of its array.
        changed |= {
            child_id(job.id, index) for job in changes.updated for order in job.child_orders for index in order.indices
        }
        for job in (it for it in changes.inserted if it.child is None):
            if audited.count(job.id) < 1:
                self._run_log.fail("acts", f"{job.id} was submitted, without an audit record")
        for about in audited:
            if about.partition("#")[0] not in changed:
                self._run_log.fail("acts", f"an audit record names {about}, which has not changed")
        for job in changes.updated:
            self._ordered(job, audited)
        self._orders |= {job.id: _orders(job) for job in (*changes.inserted, *changes.updated)}

    def _ordered(self, job: Job, audited: list[str]) -> None:
        """Only orders of users have audit records; orders by a time limit or by the job's array have none."""
        before = self._orders.get(job.id, frozenset())
        by_user = any(user for _, _, user in _orders(job) - before)
        if by_user and job.child is None and job.id not in {it.partition("#")[0] for it in audited}:
            self._run_log.fail("acts", f"{job.id} was ordered to stop, without an audit record")


def _orders(job: Job) -> frozenset[tuple[StopKind, str, UserName]]:
    return frozenset((it.kind, it.reason, it.user) for it in job.stop_orders)
