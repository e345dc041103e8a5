"""What jobs cost: one job."""

from batchq.domain.access.accounts import Caller
from batchq.domain.cost import Cost, cost_of
from batchq.domain.ids import JobId, node_of
from batchq.domain.training_metrics import TrainingPlan
from batchq.errors import NotFound
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.services.training_metrics import MetricsService

NO_PLAN = TrainingPlan()


class CostService:
    """Computes costs. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, store: JobStore, metrics: MetricsService, clock: Clock) -> None:
        self._store = store
        self.metrics = metrics
        self._clock = clock

    async def of_job(self, job_id: JobId, *, caller: Caller) -> Cost | None:
        """What a job has cost so far, a node that of its whole job; None for a job without prices, never 0.

        The storage of checkpoints is not counted yet. Raises NotFound, Throttled and StoreFailed.
        """
        whole, _ = node_of(job_id)
        job = (await self._store.jobs([whole], visibility=caller.visibility)).get(whole)
        if job is None:
            raise NotFound(f"Job {job_id} not found.")
        metrics = {} if job.spec.plan == NO_PLAN else await self.metrics.current(job, caller=caller)
        return cost_of(job, self._clock.now(), metrics=metrics)
