"""Random holds, pauses and drained queues, and what must hold of them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from random import Random

from batchq.domain.catalog import JobQueue
from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.ids import JobId, QueueName, child_id
from batchq.domain.job import Job
from batchq.domain.job_request import JobRequest
from batchq.domain.stop_request import StopRequest
from batchq.ports.catalog import CatalogResource
from batchq.ports.jobs import Changes
from batchq.services.jobs import JobService
from tests.simulation.resource_checks import CATALOG_DELAY
from tests.simulation.run_log import Checks, RunLog
from tests.simulation.submissions import FAIR
from tests.support.builders import ADMIN

HOLDS = ("hold", "pause")
RELEASES = ("release", "resume_job")


def request(rng: Random, known: Mapping[JobId, JobRequest]) -> tuple[str, JobId] | None:
    """A request, and the recent job or the child that it names; None before the first job."""
    if not known:
        return None
    job_id = rng.choice(list(known)[-8:])
    size = known[job_id].array_size
    if size is not None and rng.random() < 0.5:
        job_id = child_id(job_id, rng.randrange(size))
    return rng.choice([*HOLDS, "pause", *RELEASES]), job_id


async def deliver(jobs: JobService, what: str, job_id: JobId) -> None:
    """Deliver a request of `request`."""
    match what:
        case "hold":
            await jobs.hold(job_id, "a user holds it", caller=ADMIN)
        case "pause":
            await jobs.stop(job_id, StopRequest(kind=StopKind.PAUSE, reason="a user holds it"), caller=ADMIN)
        case "release":
            await jobs.release(job_id, caller=ADMIN)
        case "resume_job":
            await jobs.resume_job(job_id, caller=ADMIN)


class HoldChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], now: Callable[[], datetime], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._now = now
        #: By drained queue: when its drain was saved.
        self._drained: dict[QueueName, datetime] = {}

    def changed(self, name: str, resource: CatalogResource | None) -> None:
        """A queue was drained, or opened again, or a resource was deleted (`resource` None)."""
        if resource is None:
            self._drained.pop(QueueName(name), None)
        if isinstance(resource, JobQueue) and resource.drained:
            self._drained.setdefault(resource.name, self._now())
            self.run_log.counts["drains"] += 1
        elif isinstance(resource, JobQueue):
            self._drained.pop(resource.name, None)

    def written(self, changes: Changes, begun: Sequence[Job]) -> None:
        """Called before `jobs` has the changes. `begun`: the jobs of which an attempt begins."""
        released = {job.job_id for job in changes.history if job.hold is not None and job.hold.hold is None}
        for job in begun:
            drained_at = self._drained.get(job.spec.queue)
            if drained_at is not None and self._now() - drained_at > CATALOG_DELAY:
                self.fail("I29 no job of a drained queue is placed", job, job)
            before = self.jobs.get(job.id)
            if job.hold is not None or (before is not None and before.held and job.id not in released):
                self.fail("I29 a held job is not placed", job, job)
            array = None if job.child is None else self.jobs.get(job.child.parent)
            if array is not None and array.hold is not None and array.id not in released and job.times_held == 0:
                self.fail("I29 a child of a held array is not placed", job, job)
            self.run_log.counts["fair share: placements beside a paused job"] += self._is_beside_paused(job)
        for job in changes.updated:
            before = self.jobs.get(job.id)
            if before is not None:
                self._check_pause(before, job)

    def _is_beside_paused(self, placed: Job) -> bool:
        others = (job for job in self.jobs.values() if job.id != placed.id and job.spec.queue == placed.spec.queue)
        return placed.spec.queue == FAIR and any(job.hold is not None and job.status not in FINISHED for job in others)

    def held(self, what: str, job_id: JobId) -> None:
        """A request was acknowledged."""
        self.run_log.counts[f"jobs: {what}"] += 1
        job = self.jobs.get(job_id)
        if job is not None and job.status not in FINISHED and what in HOLDS and job.times_held == 0:
            self.fail("I30 an acknowledged hold is durable", job, job)

    def _check_pause(self, before: Job, after: Job) -> None:
        """An attempt ends paused exactly once, for a pause of it, and the job goes on unless it ended otherwise."""
        for ended in after.attempts[len(before.attempts) :]:
            ordered = [
                order for order in after.stop_orders if order.kind is StopKind.PAUSE and order.attempt == ended.number
            ]
            self.run_log.counts["attempts paused"] += ended.paused
            if len(ordered) > 1 or (ended.paused and not ordered):
                self.fail("I31 a paused attempt was ordered to pause, once", after, after)
        only_paused = all(order.kind is StopKind.PAUSE for order in after.stop_orders)
        refused = bool(after.attempts) and after.attempts[-1].forbidden
        if before.is_pausing and after.status is Status.FAILED and only_paused and not refused:
            self.fail("I32 a pause does not fail the job", after, after)
        numbers = [attempt.number for attempt in after.attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            self.fail("I31 a pause loses no attempt", after, after)
