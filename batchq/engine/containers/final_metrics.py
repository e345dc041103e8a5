"""Saves the last metrics of a training job with its attempt, before the attempt's container is removed.

A server that is killed in between saves them at the next start, because the container is still there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from batchq.domain.ids import Tag
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.container_gates import leading_tag
from batchq.domain.training_metrics import MetricValue
from batchq.engine.messages import MetricsRead

#: Reads the last metrics of an attempt whose log is stored, by name. Raises StoreFailed.
ReadMetrics = Callable[[Job, Attempt], Awaitable[Mapping[str, MetricValue]]]


class FinalMetrics:
    """Reads and saves the metrics of attempts that have ended."""

    def __init__(self, *, read: ReadMetrics, post: Callable[[MetricsRead], None]) -> None:
        self._read = read
        self._post = post

    async def save(self, tag: Tag, job: Job | None) -> None:
        """Save the metrics of the attempt if this container is the one that shows them. Raises Unavailable."""
        if job is None or not job.spec.reports_metrics or tag != leading_tag(job, tag.attempt):
            return
        attempt = next((it for it in job.attempts if it.number == tag.attempt), None)
        if attempt is None or attempt.metrics:
            return
        metrics = tuple((await self._read(job, attempt)).items())
        if metrics:
            saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._post(MetricsRead(job_id=job.id, attempt=attempt.number, metrics=metrics, answer=saved))
            await saved
