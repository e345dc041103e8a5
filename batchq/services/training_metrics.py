"""The metrics of a job: the last values that its log shows, or those saved with its last attempt."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from time import perf_counter

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.ids import Tag
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.container_gates import main_node, spec_of
from batchq.domain.training_metrics import MetricRule, MetricValue, metric_value
from batchq.errors import NotFound
from batchq.logs.service import LogService
from batchq.ports.logs import StoredLine
from batchq.services.metric_patterns import patterns
from batchq.throttling import ConcurrencyLimit

MAX_LINES = 20_000  # lines of a log that are searched, the last ones
MAX_LINE = 4096  # characters of a line that are searched
SLICE_SECONDS = 0.01  # after which the event loop is yielded
MAX_SECONDS = 0.5  # of CPU for one job; metrics that are not found until then are left out
MAX_WAITING = 15  # requests of one user that wait while another one of the same user is being read

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MetricsService:
    """Reads metrics. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, logs: LogService) -> None:
        self._logs = logs
        self._one_at_a_time = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)

    async def current(self, job: Job, *, caller: Caller) -> Mapping[str, MetricValue]:
        """The last values of the newest attempt, by name; empty for a job that has reported none or never ran.

        Raises NotFound, Throttled and StoreFailed.
        """
        if not caller.reaches(job.spec.owner):
            raise NotFound(f"Job {job.id} not found.")
        attempt = job.attempt or (job.attempts[-1] if job.attempts else None)
        if attempt is None or attempt.started_at is None:
            return {}
        if attempt.metrics:
            return dict(attempt.metrics)
        async with self._one_at_a_time.of(caller.user):
            tag = leading_tag(job, attempt)
            if spec_of(job, tag).logging.captured:
                await self._logs.copy(tag)
            return await self.stored(job, attempt)

    async def stored(self, job: Job, attempt: Attempt) -> Mapping[str, MetricValue]:
        """The last values that the stored log of an attempt shows, by name. Raises StoreFailed."""
        page = await self._logs.tail(leading_tag(job, attempt), limit=MAX_LINES)
        return await last_values(page.lines, job.spec.metric_rules)


def leading_tag(job: Job, attempt: Attempt) -> Tag:
    """The container of an attempt whose output shows the metrics: the first essential one of the main node."""
    tag = Tag(job_id=job.id, attempt=attempt.number)
    task = job.spec.task if job.spec.nodes is None else job.spec.nodes.task(job.spec.nodes.main)
    return tag if task is None else replace(tag, container_key=f"{main_node(job)}/{task.leading.name}")


async def last_values(lines: Sequence[StoredLine], rules: Sequence[MetricRule]) -> dict[str, MetricValue]:
    """For each rule the value of its last match, by name; rules without a match are left out."""
    missing, found = patterns(rules), dict[str, MetricValue]()
    began = slice_began = perf_counter()
    for line in reversed(lines):
        message = line.message[:MAX_LINE]
        for name, pattern in list(missing.items()):
            match = pattern.search(message)
            value = None if match is None else metric_value(match.group(1) or "", _time(line.at))
            if value is not None:
                found[name] = value
                del missing[name]
            now = perf_counter()
            if now - slice_began > SLICE_SECONDS:
                if now - began > MAX_SECONDS:
                    return found
                await asyncio.sleep(0)  # noqa: TID251 - yields the event loop, does not wait
                slice_began = perf_counter()
        if not missing:
            break
    return found


def _time(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
