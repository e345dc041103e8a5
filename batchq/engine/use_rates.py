"""What running jobs use at present: their CPU time since the last sample of the activity, and their memory."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from batchq.domain.activity import JobUse
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.use import MIB, Use
from batchq.engine.use import UseSamples, running_containers

MAX_AGE = timedelta(seconds=60)  # of a sample that is the present one


class UseRates:
    """Computes rates of CPU time from one call to the next."""

    def __init__(self, samples: UseSamples) -> None:
        self._samples = samples
        #: The samples of the last call.
        self._before: dict[Tag, Use] = {}

    def take(self, jobs: Iterable[Job], now: datetime) -> Mapping[JobId, JobUse]:
        """The use of each job whose running containers are all measured. Other jobs are left out.

        A container that had no sample at the last call has the mean rate of its run.
        """
        present: dict[Tag, Use] = {}
        found: dict[JobId, JobUse] = {}
        for job in jobs:
            uses = [self._use(tag, container, now, present) for tag, container in running_containers(job).items()]
            known = [use for use in uses if use is not None]
            if known and len(known) == len(uses):
                found[job.id] = JobUse(sum(use.millicpus for use in known), sum(use.memory_mib for use in known))
        self._before = present
        return found

    def _use(self, tag: Tag, container: AttemptContainer, now: datetime, present: dict[Tag, Use]) -> JobUse | None:
        series, began = self._samples.series.get(tag), container.started_at
        newest = None if series is None else series.newest
        if newest is None or now - newest.sampled_at > MAX_AGE:
            return None
        present[tag] = newest
        if newest.cpu_seconds is None or newest.working_set is None:
            return None
        before = self._before.get(tag)
        since, spent = (began, 0.0) if before is None else (before.sampled_at, before.cpu_seconds or 0.0)
        length = 0.0 if since is None else (newest.sampled_at - since).total_seconds()
        if length <= 0:
            return None
        rate = max(0.0, newest.cpu_seconds - spent) / length
        return JobUse(round(1000 * rate), round(newest.working_set / MIB))
