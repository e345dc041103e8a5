"""The machine's clock, which may be wrong by hours and is set between two servers; and the checks of stored times.

The world's clock is the true time. Times of a server and of a container engine of the machine are ahead
of it by the present skew.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.escalation import longest_wait
from batchq.ports.clock import Boot, Clock
from batchq.ports.runtime import DeathReport, Inspection
from tests.simulation.container_records import ContainerRecords
from tests.simulation.run_log import Checks, RunLog
from tests.support.builders import NOON


class MachineClock:
    def __init__(self, now: Callable[[], datetime], skew: timedelta) -> None:
        self._now = now
        self._set: list[tuple[datetime, timedelta]] = [(now(), skew)]

    @property
    def skew(self) -> timedelta:
        return self._set[-1][1]

    def set(self, skew: timedelta) -> None:
        self._set.append((self._now(), skew))

    def was_set_since(self, at: datetime) -> bool:
        """Whether it was set after a true time."""
        return len(self._set) > 1 and self._set[-1][0] >= at

    def shown(self, at: datetime) -> datetime:
        """The time of this clock at a true time."""
        return at + next((skew for since, skew in reversed(self._set) if since <= at), self._set[0][1])

    def stamped(self, found: Inspection | None) -> Inspection | None:
        """The inspection of a container as an engine of this machine reports it."""
        if found is None or found.started_at is None:
            return found
        stopped_at = None if found.stopped_at is None else self.shown(found.stopped_at)
        return replace(found, started_at=self.shown(found.started_at), stopped_at=stopped_at)


class ServerClock:
    """The clock of one server: the machine's clock at its start, and then the time that passes."""

    def __init__(self, clock: Clock, skew: timedelta) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> datetime:
        return self._clock.now() + self._skew

    def sleep(self, seconds: float) -> Any:
        return self._clock.sleep(seconds)

    def boot(self) -> Boot:
        """The machine is booted once, before the world begins."""
        return Boot(id="simulated", at=NOON + self._skew)


class StampedReports:
    """Death reports with the times of the machine's clock."""

    def __init__(self, deaths: Any, machine_clock: MachineClock) -> None:
        self._deaths = deaths
        self._clock = machine_clock

    def __aiter__(self) -> "StampedReports":
        return self

    async def __anext__(self) -> Any:
        spec = await anext(self._deaths)
        return replace(spec, found=self._clock.stamped(spec.found)) if isinstance(spec, DeathReport) else spec


class StoredTimes(Checks):
    """Stored times are times of the last aligned server's clock."""

    def __init__(
        self, *, jobs: Mapping[JobId, Job], containers: ContainerRecords, now: Callable[[], datetime], run_log: RunLog
    ) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._containers = containers
        self._now = now
        self._placed: dict[tuple[JobId, int], datetime] = {}
        self._ended: dict[JobId, datetime] = {}
        #: How far the clock is ahead of the true time of the server that wrote last.
        self.skew = timedelta()
        #: None: the clock of this world is never set.
        self.machine_clock: MachineClock | None = None

    def now(self) -> datetime:
        """The true time."""
        return self._now()

    def true(self, at: datetime) -> datetime:
        return at - self.skew

    def shown(self, at: datetime) -> datetime:
        """The time of the machine's clock at a true time."""
        return at if self.machine_clock is None else self.machine_clock.shown(at)

    def placed(self, job: Job) -> None:
        """An attempt begins."""
        assert job.attempt is not None
        assert job.attempt.placed_at is not None
        self._placed[job.id, job.attempt.number] = self.true(job.attempt.placed_at)

    def ended(self, job: Job) -> None:
        """A job is over."""
        number = len(job.attempts)
        ran = [record for record in self._containers.of_job(job.id) if record.ran and record.tag.attempt == number]
        ends = [record.died_at for record in ran if record.died_at is not None]
        if ends and self.spans_setting(job.id, number):
            ends = [self._placed[job.id, number]]  # the earliest that the engine's two clocks can make of it
        if not ends and job.stopped_at is not None:
            ends = [self.true(job.stopped_at)]
        self._ended[job.id] = min(self._now(), *ends)

    def spans_setting(self, job_id: JobId, number: int) -> bool:
        """Whether the machine's clock was set while this attempt was under way."""
        placed = self._placed.get((job_id, number))
        return self.machine_clock is not None and placed is not None and self.machine_clock.was_set_since(placed)

    def earliest_start(self, job: Job, started: datetime) -> datetime:
        """When a timeout may start; after the clock was set it may start at the placement."""
        number = job.attempt.number if job.attempt is not None else 0
        return self._placed[job.id, number] if self.spans_setting(job.id, number) else started

    def check_alignment(self) -> None:
        """I16: after a start, all times that decide something are times of the new server's clock."""
        now = self._now()
        for job in self.jobs.values():
            if job.attempt is not None:
                placed = self._placed[job.id, job.attempt.number]
                for at in _past(job.attempt):
                    self._check_between(job, placed, at, now)
            if job.stop is not None and job.attempt is not None:
                self._check_between(job, None, job.stop.ordered_at, now)
            if job.blocked_at is not None:
                self._check_between(job, None, job.blocked_at, now)

    def check_kill_times(self, job: Job) -> None:
        """I16: at each commit."""
        for part in () if job.attempt is None else job.attempt.containers:
            self._check_kill_time(job, part)

    def deleted(self, job_id: JobId, retention: timedelta) -> None:
        """I16: a deleted job was finished for at least its retention."""
        kept = self._now() - self._ended[job_id]
        if kept < retention:
            self.fail("I16 a finished job is kept for its retention", job_id, f"was over for {kept} of {retention}")

    def _check_between(self, job: Job, first: datetime | None, at: datetime, last: datetime) -> None:
        at = self.true(at)
        if at > last or (first is not None and at < first):
            self.fail("I16 stored times are of the server's clock", job, f"{at} is not between {first} and {last}")

    def _check_kill_time(self, job: Job, stopped: AttemptContainer) -> None:
        due = stopped.next_step_at
        if due is not None and self.true(due) - self._now() > longest_wait(stopped):
            self.fail("I16 no step of a stop is later than its wait", job, self.true(due))


def _past(attempt: Attempt) -> Iterator[datetime]:
    """The times of an active attempt since its placement."""
    for container in (attempt, *attempt.containers):
        yield from (at for at in _stamps(container) if at is not None)


def _stamps(container: Any) -> tuple[datetime | None, ...]:
    if isinstance(container, Attempt):
        return container.placed_at, container.started_at
    return container.start_requested_at, container.killed_at
