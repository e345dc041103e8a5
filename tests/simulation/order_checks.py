"""Checks at each commit: a stop order stays visible with its author, and its times are in order."""

from collections.abc import Mapping

from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.stop_orders import StopOrder, StopProgress
from batchq.ports.jobs import Changes
from tests.simulation.run_log import RunLog


class OrderChecks:
    """`jobs` are as last committed."""

    def __init__(self, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        self._jobs = jobs
        self._run_log = run_log

    def written(self, changes: Changes) -> None:
        """Called before `jobs` has the changes."""
        ordered = {
            (it.job_id, it.stop.kind, it.stop.user, it.stop.reason)
            for it in changes.history
            if it.stop is not None and it.stop.progress is StopProgress.ORDERED and it.stop.node is None
        }
        for job in (*changes.inserted, *changes.updated):
            before = self._jobs.get(job.id)
            known = () if before is None else before.stop_orders
            self._stay_visible(job, known)
            for order in job.stop_orders[len(known) :]:
                if (job.id, order.kind, order.user, order.reason) not in ordered:
                    self._fail("I27 each stop order has an entry in the history", job)
            for order in job.stop_orders:
                first = min(it.ordered_at for it in job.stop_orders)  # an order takes over what a pause has begun
                times = [it for it in (first, order.signalled_at, order.killed_at) if it is not None]
                if times != sorted(times):
                    self._fail("I28 an order is requested, then signalled, then kills", job)

    def _stay_visible(self, job: Job, known: tuple[StopOrder, ...]) -> None:
        if [_facts(it) for it in job.stop_orders[: len(known)]] != [_facts(it) for it in known]:
            self._fail("I26 an accepted stop order stays visible with its author", job)

    def _fail(self, what: str, job: Job) -> None:
        self._run_log.fail(what, f"{self._run_log.name_of(job.id)} {job.stop_orders}")


def _facts(order: StopOrder) -> tuple[object, ...]:
    return order.kind, order.user, order.reason, order.ordered_at
