"""The state of the loop beside the stored jobs: what surveys and requests change, safe mode, repeated submissions."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.enums import ACTIVE, QUEUED, Status
from batchq.domain.ids import ContainerEngineName, JobId, MachineName, SubmissionKey, Tag
from batchq.domain.job import Job
from batchq.domain.job_counts import JobCounts
from batchq.domain.lifecycle.container_rules import container_with_key
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.lifecycle.reconcile import SurveyedContainer, reconcile, tags_running, tags_under_way
from batchq.domain.machines import LOCAL, Machine, usable_machine
from batchq.engine.containers.watcher import RuntimeCheck
from batchq.engine.sightings import Sightings
from batchq.engine.unit_of_work import Committed, UnitOfWork, will_be_spawned
from batchq.engine.use import UseSamples
from batchq.errors import Invalid
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import JobStore, Restoration

log = logging.getLogger(__name__)
SUBMISSIONS_KEPT_FOR = timedelta(minutes=15)  # how long a submission is stored under its key
FILTER_BYTES = 2**22  # bytes, one for each key's hash: at four hundred calls a second a tenth of them is marked
QUARANTINE = timedelta(seconds=60)  # before an orphan is removed
MAX_ORPHANS = 3  # orphans at once; if there are more, none is removed


class EngineState:
    """Written by the message handlers and `on_committed`; all other code only reads it."""

    def __init__(self, catalog: CatalogView, engine_check: RuntimeCheck) -> None:
        #: Jobs that are STARTING or RUNNING, as last saved.
        self.active: dict[JobId, Job] = {}
        #: The machines as the last survey reported them.
        self.surveyed_machines: tuple[Machine, ...] = ()
        #: The container engines of all machines that were ever reported.
        self._engines: dict[MachineName, ContainerEngineName] = {}
        #: The machines with the resources that jobs may reserve; None while the container engine does not answer.
        self.machines: tuple[Machine, ...] | None = None
        #: The jobs that had containers in the last survey, and their arrays.
        self.jobs_in_survey: frozenset[JobId] = frozenset()
        #: Whether every container engine answered in the last survey.
        self.survey_is_complete = False
        #: Whether the catalog or the machines have changed since the last placement pass.
        self.catalog_changed = False
        #: `Job.sequence` of the next submitted job.
        self.next_sequence = 0
        #: The numbers of unfinished jobs, as last saved.
        self.counts = JobCounts({})
        #: The earliest time that a server of the machine's present boot can have stored; None: not known.
        self.clock_since: datetime | None = None
        #: How far the container engine's clock is ahead of this server's; None when the container engine does not
        #: report its time.
        self.engine_clock_offset: timedelta | None = None
        #: Safe mode after a restore.
        self.safe_mode = SafeMode(catalog)
        #: The identity of the container engine on which the unfinished attempts run.
        self.engine_check = engine_check
        #: Until when active attempts are known to have run.
        self.sightings = Sightings()
        #: What running containers use.
        self.use = UseSamples()
        #: Detects submissions that may be repetitions.
        self.idempotency = IdempotencyFilter()
        #: Containers without a known job.
        self.orphans = OrphanContainers()

    async def load(self, store: JobStore, now: datetime) -> None:
        """Load the state from the store.

        Called before the first unit of work, and whenever memory may differ from the store.
        """
        self.active = {job.id: job for job in await store.active() if not is_damaged(job)}
        self.next_sequence = await store.last_sequence() + 1
        self.counts = JobCounts(await store.unfinished_counts())
        self.idempotency.load(now, empty=self.next_sequence == 0)
        self.safe_mode.restoration = await store.restoration()
        self.engine_check.known_id = await store.engine_id()
        self.sightings.load(await store.last_survey())
        anchor = await store.clock_anchor()
        self.clock_since = None if anchor is None else anchor.since

    def engine_of(self, machine: MachineName | None) -> ContainerEngineName:
        """The container engine of a machine. An unknown machine may be on an engine that has not answered yet."""
        name = machine or LOCAL
        if name in self._engines or not self.surveyed_machines:
            return self._engines.get(name, ContainerEngineName(""))
        first = self.surveyed_machines[0]
        return next((each for each in self.surveyed_machines if each.is_whole_engine), first).engine

    def record_machines(self, machines: tuple[Machine, ...]) -> None:
        """Store the machines of a survey. A change of them counts as a change of the catalog."""
        if self.machines is None or self.surveyed_machines != machines:
            self.catalog_changed, self.surveyed_machines = True, machines
            self.machines = tuple(map(usable_machine, machines))
            self._engines |= {machine.name: machine.engine for machine in machines}
        self.survey_is_complete = not any(machine.is_unlisted for machine in machines)

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            if job.attempt is not None:
                self.active[job.id] = job
            else:
                self.active.pop(job.id, None)
        self.counts.update((changed.before, changed.job) for changed in committed.transitions)
        self.safe_mode.on_committed(committed)
        self.engine_check.on_committed(committed)
        self.sightings.on_committed(committed)

    @property
    def jobs_with_containers(self) -> frozenset[JobId] | None:
        """The jobs that had containers in the last survey; None without a valid survey."""
        if self.machines is None or self.safe_mode.active or not self.survey_is_complete:
            return None
        return self.jobs_in_survey

    @property
    def safe_mode_reason(self) -> str | None:
        """The reason why safe mode starts no job; None outside safe mode."""
        return str(self.safe_mode) if self.safe_mode.active else None


class IdempotencyFilter:
    """A filter of submission keys with false positives but no false negatives.

    A key marks one byte by its hash. An unmarked key is new; a marked one may be a different key with the same hash.
    Keys are marked before anything is saved, and stay marked longer than the submission is stored. The keys stored by
    an earlier server are not known, so every key may be a repetition until those have expired.
    """

    def __init__(self) -> None:
        #: The marks of the current period, which is SUBMISSIONS_KEPT_FOR long, then those of the previous period.
        #: Empty before the first submission.
        self._marks: tuple[bytearray, ...] = ()
        #: When the current period began.
        self._since = datetime.min.replace(tzinfo=UTC)
        #: Until when every key may be a repetition.
        self._unsure_until = self._since

    def load(self, now: datetime, *, empty: bool) -> None:
        """Start at `now`. `empty`: no job has ever been saved in the store, so no key is stored either."""
        self._unsure_until = now if empty else now + SUBMISSIONS_KEPT_FOR

    def may_be_repeated(self, key: SubmissionKey, now: datetime) -> bool:
        """Mark the key; whether it may be a repetition and must be looked up in the store."""
        if now - self._since >= SUBMISSIONS_KEPT_FOR:
            self._marks, self._since = (bytearray(FILTER_BYTES), *self._marks[:1]), now
        place = hash(key) % FILTER_BYTES
        marked = any(marks[place] for marks in self._marks)
        self._marks[0][place] = 1
        return marked or now < self._unsure_until


class OrphanContainers:
    """Decides which orphans are removed.

    None is removed if there are many at once: probably the database does not belong to the containers. An orphan that
    appears after the first survey is left alone: another server of this instance created it. Decision 0036.
    """

    def __init__(self) -> None:
        #: When each orphan was first seen.
        self._since: dict[Tag, datetime] = {}
        #: Whether the present excess of orphans has been logged.
        self._excess_logged = False
        #: The containers of the first survey; None before it.
        self.first_survey: frozenset[Tag] | None = None
        #: The orphans that appeared after the first survey and have been logged.
        self._logged: set[Tag] = set()

    def record_survey(self, seen: Iterable[Tag]) -> None:
        """Record the containers of the first survey, including those of known jobs."""
        if self.first_survey is None:
            self.first_survey = frozenset(seen)

    def expired(self, seen: Collection[Tag], now: datetime) -> list[Tag]:
        """The orphans whose quarantine is over; empty if there are more than MAX_ORPHANS orphans."""
        first = self.first_survey or frozenset()
        self._log_later([tag for tag in seen if tag not in first])
        seen = [tag for tag in seen if tag in first]
        self._since = {tag: self._since.get(tag, now) for tag in seen}
        if len(seen) > MAX_ORPHANS:
            self._log_excess(len(seen))
            return []
        self._excess_logged = False
        return [tag for tag, since in self._since.items() if now - since >= QUARANTINE]

    def _log_later(self, later: Collection[Tag]) -> None:
        for tag in sorted(set(later) - self._logged, key=str):
            log.warning(
                "container %s has no known job and was created after this server started; it is not removed: "
                "another server of this instance may be running",
                tag,
            )
        self._logged.intersection_update(later)
        self._logged.update(later)

    def _log_excess(self, count: int) -> None:
        if not self._excess_logged:
            log.warning("%d containers of this instance have no known job; none of them is removed", count)
        self._excess_logged = True


class SafeMode:
    """Whether safe mode is active, and which containers it found."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog
        #: As last saved. Safe mode is active if `at` is set.
        self.restoration = Restoration()
        #: The containers without a job; None before the first survey.
        self.unknown_containers: frozenset[Tag] | None = None
        #: The containers of the last survey that have been started.
        self._started: frozenset[Tag] = frozenset()

    @property
    def active(self) -> bool:
        return self.restoration.at is not None

    def __str__(self) -> str:
        """A description for the operator."""
        seen = (
            "the running containers are not known yet"
            if self.unknown_containers is None
            else f"{len(self.unknown_containers)} unknown containers"
        )
        return f"restored from a backup, {seen}: no container is started until `batchq leave-safe-mode`"

    def reconcile_survey(self, unit: UnitOfWork, seen: Sequence[SurveyedContainer]) -> None:
        """Handle a survey in safe mode."""
        present = {container.tag for container in seen}
        self._started = frozenset(container.tag for container in seen if container.started)
        machines = {container.tag: container.machine for container in seen if container.machine is not None}
        for container in seen:
            if container.started:
                self._resume_attempt(unit, container.tag, present, machines)
        known = {tag.job_id for tag in present if unit.has_loaded(tag.job_id)}
        found = reconcile(active=unit.active(), known=known, surveyed=seen, expected=())
        ended = {
            container.tag for container in seen if not container.running and _is_recorded_as_ended(unit, container.tag)
        }
        for effect in found.effects:
            if not isinstance(effect, do.CleanUpContainer) or effect.tag in ended:
                unit.effects.append((effect, unit.get(effect.tag.job_id)))
        cleared = {effect.tag for effect in found.effects if isinstance(effect, do.CleanUpContainer)}
        leftovers = frozenset({*found.orphans, *cleared} - ended)
        if not any(will_be_spawned(unit, tag.job_id) for tag in leftovers):
            unit.unknown_containers = leftovers

    def drop_starts(self, unit: UnitOfWork) -> None:
        """Drop the starts of the unit of work, except those of begun containers and those that are being abandoned."""
        if not self.active:
            return
        allowed = self._started | {effect.tag for effect, _ in unit.effects if isinstance(effect, do.AbandonStart)}
        unit.effects = [
            (effect, job)
            for effect, job in unit.effects
            if not isinstance(effect, do.StartContainer) or effect.tag in allowed
        ]

    def ignores(self, job: Job, event: on.Event) -> bool:
        """Whether to ignore the event: in safe mode, the loss of a container that should run and has no stop order."""
        return (
            self.active
            and isinstance(event, on.ContainerLost)
            and _should_run(job, Tag(job_id=job.id, attempt=event.attempt, container_key=event.container_key))
        )

    def leave(self, unit: UnitOfWork, *, purge: bool) -> None:
        """Leave safe mode. `purge`: remove the containers without a job; otherwise they are left alone permanently.

        Raises Invalid while the containers of the container engine are not known.
        """
        seen = unit.unknown_containers if unit.unknown_containers is not None else self.unknown_containers
        if self.active and seen is None:
            raise Invalid(
                "The running containers are not known yet: the container engine has not answered, or an array is still "
                "spawning children."
            )
        unknown = self.restoration.spared | (seen or frozenset() if self.active else frozenset())
        removed = frozenset(tag for tag in unknown if purge and not _is_of_attempt_under_way(unit, tag))
        spared = frozenset() if purge else unknown
        unit.restoration = Restoration(spared=spared, purged=self.restoration.purged | removed)
        unit.effects += [(do.CleanUpContainer(tag=tag), None) for tag in sorted(removed, key=str)]

    def spared(self, unit: UnitOfWork, tags: Collection[Tag]) -> frozenset[Tag]:
        """The containers among `tags` that an operator chose to leave alone."""
        return frozenset(tag for tag in tags if tag in self.restoration.spared and not _is_recorded_as_ended(unit, tag))

    def _resume_attempt(
        self, unit: UnitOfWork, tag: Tag, present: AbstractSet[Tag], machines: Mapping[Tag, MachineName]
    ) -> None:
        """Advance the job to the attempt of an existing container.

        The attempts in between count as lost. An attempt with a container that can still report its end stops this.
        """
        while (job := unit.apply_parent_order(tag.job_id)) is not None and _is_behind(job, tag):
            queue = self._catalog.queues.get(job.spec.queue)
            if queue is None or (job.status in ACTIVE and not present.isdisjoint(tags_under_way(job))):
                return
            if job.status in ACTIVE:
                _lose(unit, job)
            else:
                _place(unit, job, queue.environments[0], _machines_of(job, tag, machines))

    def on_committed(self, committed: Committed) -> None:
        if committed.unit.unknown_containers is not None:
            self._log_unknown(committed.unit.unknown_containers)
        if committed.unit.restoration is not None:
            self.restoration = committed.unit.restoration

    def _log_unknown(self, unknown: frozenset[Tag]) -> None:
        for tag in sorted(unknown - (self.unknown_containers or frozenset()), key=str):
            log.warning("container %s has no job in the restored data; it is not removed", tag)
        self.unknown_containers = unknown


def _is_behind(job: Job, tag: Tag) -> bool:
    now_at = len(job.attempts) if job.attempt is None else job.attempt.number
    return job.status in QUEUED | ACTIVE and now_at < tag.attempt


def _should_run(job: Job, tag: Tag) -> bool:
    """Whether the container should run and has no stop order."""
    if tag not in tags_running(job):
        return False
    return job.stop is None and not container_with_key(job, tag.container_key).stop_ordered


def _lose(unit: UnitOfWork, job: Job) -> None:
    """Report the first container of the current attempt as lost."""
    tag = tags_under_way(job)[0]
    unit.step(job.id, on.ContainerLost(attempt=tag.attempt, container_key=tag.container_key))


def _machines_of(job: Job, tag: Tag, machines: Mapping[Tag, MachineName]) -> tuple[MachineName, ...]:
    """The machine of each node of the attempt; that of `tag` for nodes without a started container."""
    if tag not in machines:
        return ()
    own = {
        other.node: machine
        for other, machine in machines.items()
        if (other.job_id, other.attempt) == (tag.job_id, tag.attempt)
    }
    return tuple(own.get(node, machines[tag]) for node in range(job.spec.nodes.count))


def _place(unit: UnitOfWork, job: Job, environment: str, machines: tuple[MachineName, ...]) -> None:
    """Place the job. Its container exists, so its dependencies had been met."""
    if job.status is not Status.RUNNABLE:
        unit.step(job.id, on.DependenciesMet())
    if job.hold is not None:
        unit.step(job.id, on.ReleaseRequested())
    if job.unschedulable:
        unit.step(job.id, on.FoundSchedulable())
    unit.step(job.id, on.Placed(environment=environment, machines=machines))


def _is_of_attempt_under_way(unit: UnitOfWork, tag: Tag) -> bool:
    """Whether the container belongs to the current attempt.

    It may belong to a task whose other containers must be attached first.
    """
    job = unit.get(tag.job_id)
    return job is not None and job.attempt is not None and job.attempt.number == tag.attempt


def _is_recorded_as_ended(unit: UnitOfWork, tag: Tag) -> bool:
    """Whether the data contains the end of this attempt."""
    job = unit.get(tag.job_id)
    return job is not None and any(attempt.number == tag.attempt for attempt in job.attempts)
