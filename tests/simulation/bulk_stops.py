"""Random bulk stops, and the check that the set of jobs is fixed when the order is saved."""

from collections.abc import Mapping
from datetime import timedelta
from random import Random

from msgspec.structs import replace

from batchq.domain.bulk_stop import WHOLE, JobOutcome
from batchq.domain.enums import FINISHED, QUEUED, Outcome, Status, StopKind
from batchq.domain.ids import JobId, node_of
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.views import PendingArrayOrders, has_pending_order
from batchq.domain.stop_request import StopRequest
from tests.simulation.run_log import Checks, RunLog
from tests.simulation.signal_checks import how
from tests.simulation.submissions import ENVIRONMENTS, QUEUES
from tests.support import filters

END_AT_ONCE = {Outcome.CANCELLED, Outcome.TERMINATED, Outcome.ALREADY_FINISHED}


def request(rng: Random, stop_steps: Random) -> StopRequest:
    kind = rng.choice([StopKind.CANCEL, StopKind.TERMINATE])
    own = {"grace": rng.choice([None, timedelta(0), timedelta(seconds=9)]), "signal": rng.choice([None, "SIGINT"])}
    chosen = how(stop_steps)
    own = chosen if chosen.get("force") else own | chosen
    return StopRequest(kind=kind, reason="a user sweeps", **(own if kind is StopKind.TERMINATE else {}))


def selection(rng: Random, known: list[JobId]) -> JobSelection:
    """A request for a few ids, for a filter, or for both."""
    ids = None
    if rng.random() < 0.5 and known:
        named = rng.sample(known, min(len(known), 3))
        ids = tuple(rng.choice([job_id, job_id, f"{job_id}.{rng.randrange(3)}"]) for job_id in named)
    criteria = {
        "names": frozenset({rng.choice(["job-*", f"JOB-{rng.randrange(9)}*"])}),
        "queues": frozenset({rng.choice(list(QUEUES))}),
        "statuses": rng.choice([QUEUED, frozenset({Status.RUNNING}), frozenset({Status.RUNNABLE, Status.PENDING})]),
        "environments": frozenset({rng.choice(ENVIRONMENTS)}),
    }
    chosen = rng.sample(sorted(criteria), rng.choice([0, 1, 1, 2] if ids else [1, 1, 2]))
    return JobSelection(ids=ids, **{name: criteria[name] for name in chosen})


class BulkStopChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        #: By job of an order: the last attempt that may ever begin.
        self.decided_by: dict[JobId, int] = {}

    def last_allowed(self, job: Job) -> int:
        """The last attempt that may begin; none for a child that was created after the order to its array."""
        of_array = job.child is not None and job.child.parent in self.decided_by
        return self.decided_by.get(job.id, 0 if of_array else job.max_attempts)

    def begun(self, order: StopRequest, selection: JobSelection) -> None:
        """The order is durable: its set of jobs is fixed."""
        self.run_log.counts["sweeps"] += 1
        self.run_log.write(f"an order to {order.kind} is given")
        for (_, node), job in filters.selected(self.jobs, selection).items():
            if node == WHOLE:
                self.run_log.counts["swept"] += 1
                self._decide(job)
                for child in [
                    other_job
                    for other_job in self.jobs.values()
                    if other_job.child is not None and other_job.child.parent == job.id
                ]:
                    self._decide(child)

    def _decide(self, job: Job) -> None:
        self.decided_by.setdefault(job.id, len(job.attempts) + (job.attempt is not None))

    def reported(self, order: StopRequest, some: tuple[JobOutcome, ...]) -> None:
        """Each reported outcome is true."""
        for decision in some:
            job = self.jobs.get(node_of(decision.job_id)[0])
            if decision.outcome is Outcome.NOT_FOUND or job is None or node_of(decision.job_id)[1] is not None:
                continue
            if decision.outcome in END_AT_ONCE and not self._is_over(job):
                self.fail("I7, I8 the reported outcome of a bulk stop is true", job, f"{decision} {job}")
            if decision.outcome in END_AT_ONCE:
                self._decide(job)
            if decision.outcome is Outcome.STOPPING and not _ends(job, order):
                self.fail("I7 what a sweep stops is ordered to stop", job, f"{decision} {job}")
            if decision.outcome is Outcome.NOT_RETRIED and not _ends(job, replace(order, kind=StopKind.CANCEL)):
                self.fail("I8 what a sweep cancels is not retried", job, f"{decision} {job}")

    def _is_over(self, job: Job) -> bool:
        """Whether its row is finished, or the saved order to its array has decided that it will be (decision 0027)."""
        return (
            PendingArrayOrders(
                {other_job.id: other_job for other_job in self._family(job) if has_pending_order(other_job)}
            )
            .project(job)
            .status
            in FINISHED
        )

    def _family(self, job: Job) -> tuple[Job, ...]:
        parent = None if job.child is None else self.jobs.get(job.child.parent)
        return (job,) if parent is None else (job, parent)


def _ends(job: Job, order: StopRequest) -> bool:
    cancelled = order.kind is StopKind.CANCEL and job.cancel is not None
    return job.status in FINISHED or (job.stop is not None and not job.is_pausing) or cancelled
