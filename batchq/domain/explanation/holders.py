"""Which active jobs hold a resource, and which of them ends first at the latest. Pure.

Computed when first asked for, once for all explanations of a request.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property

from msgspec import Struct

from batchq.domain.catalog import EnvironmentName
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.scheduling.backfill import latest_end
from batchq.domain.scheduling.resources import Dimension, demand

MAX_EXAMINED = 1000  # active jobs; with more of them no holder is named


class Holding(Struct, frozen=True, kw_only=True):
    """The jobs that hold some of one dimension."""

    #: Empty also if there are too many active jobs to examine.
    jobs: Sequence[Job] = ()
    #: The job whose latest end is known and comes first, with that time; None: no end is known.
    first_to_end: tuple[datetime, Job] | None = None


class Holders:
    """The holders of each dimension, among jobs that are STARTING or RUNNING."""

    def __init__(self, active: Mapping[JobId, Job], now: datetime) -> None:
        self._active = active
        self._now = now
        self._known: dict[Dimension, Holding] = {}

    def of(self, dimension: Dimension) -> Holding:
        if dimension not in self._known:
            self._known[dimension] = self._holding(self._by_dimension.get(dimension, ()))
        return self._known[dimension]

    def _holding(self, jobs: Sequence[Job]) -> Holding:
        ends = [(at, it) for it in jobs if (at := latest_end(it, self._now)) is not None and at > self._now]
        return Holding(jobs=jobs, first_to_end=min(ends, key=_end, default=None))

    @cached_property
    def _by_dimension(self) -> Mapping[Dimension, Sequence[Job]]:
        found: defaultdict[Dimension, list[Job]] = defaultdict(list)
        if len(self._active) <= MAX_EXAMINED:
            for job in self._active.values():
                assert job.attempt is not None, f"{job.id} is not active"
                for of in demand(job.spec.resources, job.spec.needs, EnvironmentName(job.attempt.environment)):
                    found[of].append(job)
        return found


def _end(ending: tuple[datetime, Job]) -> datetime:
    return ending[0]
