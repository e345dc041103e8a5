"""Samples what running containers use: at first often, for short jobs, then each second. Decision 0095.

The end of an attempt never waits for a sample: the unit of work that ends a container saves the last sample from
memory. Samples are also saved with surveys, so that a crash of the server loses at most SAVE_INTERVAL and the interval
of surveys.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.lifecycle.container_rules import with_containers
from batchq.domain.use import Use, with_sample
from batchq.domain.use_points import UsePoint, summed_points
from batchq.engine.supervisor import wait_at_most
from batchq.engine.unit_of_work import UnitOfWork
from batchq.engine.use_series import UseSeries
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerRuntime

#: The ages of a container at its first samples; then follows one at each full second.
FIRST_AGES = tuple(timedelta(seconds=seconds) for seconds in (0.05, 0.1, 0.2, 0.4, 0.8))
INTERVAL = timedelta(seconds=1)
SAVE_INTERVAL = timedelta(seconds=60)  # between two samples of a container that are saved before its end
UNMEASURED_PAUSE = 60.0  # seconds before a runtime that measures no container is asked again

ENDS = (on.ContainerExited, on.ContainerLost)


class UseSamples:
    """The use of each running container at its last sample, in memory."""

    def __init__(self) -> None:
        self.latest: dict[Tag, Use] = {}
        #: Whether the runtime can measure containers; None: no container has run since the start.
        self.is_measuring: bool | None = None
        #: Its samples since this server has followed it.
        self.series: dict[Tag, UseSeries] = {}

    def step(self, unit: UnitOfWork, job_id: JobId, event: on.Event) -> None:
        """Apply an event to a job. If a container has ended, its last sample becomes a part of its record first."""
        job = unit.get(job_id) if self.latest and isinstance(event, ENDS) else None
        if job is not None:
            unit.update(job, self.measured(job))
        unit.step(job_id, event)

    def store(self, unit: UnitOfWork) -> None:
        """Save the samples of active jobs whose saved ones are old."""
        if not self.latest:
            return
        for job in unit.active().values():
            unit.update(job, self.measured(job, min_newer=SAVE_INTERVAL))

    def measured(self, job: Job, *, min_newer: timedelta = timedelta()) -> Job:
        """The job with the last samples of its running containers, if they are so much newer than those that it has."""
        if job.attempt is None:
            return job
        containers, is_changed = job.attempt.containers, False
        for place, container in enumerate(containers):
            use, known = self.latest.get(replace(job.tag, container_key=container.key)), container.use
            if use is not None and (known is None or use.sampled_at - known.sampled_at >= min_newer):
                containers = (*containers[:place], replace(container, use=use), *containers[place + 1 :])
                is_changed = True
        return with_containers(job, containers) if is_changed else job

    def points(self, job: Job) -> tuple[UsePoint, ...]:
        """The samples of an attempt under way, by time; empty if one of its running containers has none."""
        series = [self.series.get(tag) for tag in running_containers(job)]
        return () if None in series else summed_points([each.points() for each in series if each is not None])


class FollowedContainer(Struct):
    """A running container, and when it is sampled next."""

    container_id: str
    #: When it was first known to run.
    since: datetime
    next_at: datetime


class UseSampler:
    """Samples the running containers, all that are due by one call of the runtime."""

    def __init__(self, *, runtime: ContainerRuntime, clock: Clock, samples: UseSamples) -> None:
        self._runtime = runtime
        self._clock = clock
        self._samples = samples
        self._containers: dict[Tag, FollowedContainer] = {}
        #: The followed containers by job.
        self._tags: dict[JobId, tuple[Tag, ...]] = {}
        #: Set when a container was added.
        self._added = asyncio.Event()

    def on_saved(self, job: Job) -> None:
        """Follow the containers of a job that was loaded or saved."""
        known = self._tags.pop(job.id, ())
        if job.status is not Status.RUNNING and not known:
            return
        running = running_containers(job)
        for tag in known:
            if tag not in running:
                del self._containers[tag]
                self._samples.latest.pop(tag, None)
                self._samples.series.pop(tag, None)
        if not running:
            return
        self._tags[job.id] = tuple(running)
        for tag, container in running.items():
            if tag not in self._containers:
                self._follow(tag, container)

    def _follow(self, tag: Tag, container: AttemptContainer) -> None:
        now = self._clock.now()
        self._containers[tag] = FollowedContainer(container.container_id or "", now, now + FIRST_AGES[0])
        if container.use is not None:
            self._samples.latest[tag] = container.use
        self._added.set()

    async def run(self) -> None:
        while True:
            self._added.clear()
            await self._sample()
            await self._wait()

    async def _sample(self) -> None:
        """Sample the containers that are due."""
        now = self._clock.now()
        due = {tag: followed for tag, followed in self._containers.items() if followed.next_at <= now}
        if not due:
            return
        ids = {tag: followed.container_id for tag, followed in due.items()}
        found = await self._runtime.measure(ids, at=now)
        if found or found is None:
            self._samples.is_measuring = found is not None
        if found is None:
            await self._clock.sleep(UNMEASURED_PAUSE)
            return
        for followed in due.values():
            followed.next_at = _next_sample(now, since=followed.since)
        for tag, use in found.items():
            if tag in self._containers:  # it may have ended meanwhile
                self._samples.latest[tag] = with_sample(self._samples.latest.get(tag), use)
                self._samples.series.setdefault(tag, UseSeries()).add(use)

    async def _wait(self) -> None:
        """Wait until the next container is due or another one is added."""
        if not self._containers:
            await self._added.wait()
            return
        next_at = min(followed.next_at for followed in self._containers.values())
        left = (next_at - self._clock.now()).total_seconds()
        if left > 0:
            await wait_at_most(left, self._added, self._clock)


def _next_sample(now: datetime, *, since: datetime) -> datetime:
    """When a container is sampled next. At full seconds, so that all containers are sampled together."""
    early = next((since + age for age in FIRST_AGES if since + age > now), None)
    return early or now.replace(microsecond=0) + INTERVAL


def running_containers(job: Job) -> Mapping[Tag, AttemptContainer]:
    """The running containers of a job."""
    if job.attempt is None:
        return {}
    return {
        Tag(job_id=job.id, attempt=job.attempt.number, container_key=container.key): container
        for container in job.attempt.containers
        if container.state is AttemptContainerState.RUNNING
    }
