"""Safe mode after a restore: no container starts until an operator ends it."""

import logging
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.catalog import EnvironmentName, JobQueue
from batchq.domain.enums import ACTIVE, QUEUED, Status
from batchq.domain.ids import JobId, MachineName, Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_rules import container_with_key
from batchq.domain.lifecycle.reconcile import SurveyedContainer, reconcile, tags_running, tags_under_way
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.machines import Machine
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.engine.propagation import awaits_hold, will_be_spawned
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import Invalid
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import Restoration

log = logging.getLogger(__name__)


class SafeMode:
    """Whether safe mode is active, and which containers it found."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog
        #: Whether safe mode is active, as last saved.
        self.active = False
        #: The restore and what an operator decided about its containers, as last saved.
        self.restoration = Restoration()
        #: The containers without a job; None before the first survey.
        self.unknown_containers: frozenset[Tag] | None = None
        #: The containers of the last survey that have been started.
        self._started: frozenset[Tag] = frozenset()

    def apply(self, restoration: Restoration) -> None:
        """Apply the stored restore. Safe mode is active from the restore until an operator leaves it."""
        self.restoration, self.active = restoration, restoration.at is not None

    def __str__(self) -> str:
        """A description for the operator."""
        seen = (
            "the running containers are not known yet"
            if self.unknown_containers is None
            else f"{len(self.unknown_containers)} unknown containers"
        )
        return f"restored from a backup, {seen}: no container is started until `batchq leave-safe-mode`"

    def reconcile_survey(
        self, unit: UnitOfWork, seen: Sequence[SurveyedContainer], machines_of_engine: Sequence[Machine]
    ) -> None:
        """Handle a survey in safe mode."""
        site = MachineSet(machines_of_engine, self._catalog.environments.values())
        present = {container.tag for container in seen}
        self._started = frozenset(container.tag for container in seen if container.started)
        machines = {container.tag: container.machine for container in seen if container.machine is not None}
        for container in seen:
            if container.started:
                self._resume_attempt(unit, container.tag, present, machines, site)
        known = {tag.job_id for tag in present if unit.has_loaded(tag.job_id)}
        found = reconcile(active=unit.active(), known=known, surveyed=seen, expected=())
        ended = {
            container.tag for container in seen if not container.running and _is_recorded_as_ended(unit, container.tag)
        }
        for effect in found.effects:
            if not isinstance(effect, do.CleanUpContainer) or effect.tag in ended:
                unit.add_effect(effect, unit.get(effect.tag.job_id))
        cleared = {effect.tag for effect in found.effects if isinstance(effect, do.CleanUpContainer)}
        leftovers = frozenset({*found.orphans, *cleared} - ended)
        if not any(_awaits_array(unit, tag.job_id) for tag in leftovers):
            unit.container_engine.record_unknown_containers(leftovers)

    def drop_starts(self, unit: UnitOfWork) -> None:
        """Drop the starts of the unit of work, except those of begun containers and those that are being abandoned."""
        if not self.active:
            return
        allowed = self._started | {effect.tag for effect, _ in unit.effects if isinstance(effect, do.AbandonStart)}
        unit.keep_effects(lambda effect: not isinstance(effect, do.StartContainer) or effect.tag in allowed)

    def ignores(self, job: Job, event: on.Event) -> bool:
        """Whether safe mode ignores the event: the loss of a container that should run and has no stop order."""
        return isinstance(event, on.ContainerLost) and _should_run(
            job, Tag(job_id=job.id, attempt=event.attempt, container_key=event.container_key)
        )

    def leave(self, unit: UnitOfWork, *, purge: bool) -> None:
        """Leave safe mode. `purge`: remove the containers without a job; otherwise they are left alone permanently.

        Raises Invalid while the containers of the container engine are not known.
        """
        staged = unit.container_engine.unknown_containers
        seen = self.unknown_containers if staged is None else staged
        if self.active and seen is None:
            raise Invalid(
                "The running containers are not known yet: the container engine has not answered, or an array has "
                "still to spawn or to hold children."
            )
        unknown = self.restoration.spared | (seen or frozenset() if self.active else frozenset())
        removed = frozenset(tag for tag in unknown if purge and not _is_of_attempt_under_way(unit, tag))
        spared = frozenset() if purge else unknown
        unit.container_engine.store_restoration(Restoration(spared=spared, purged=self.restoration.purged | removed))
        for tag in sorted(removed, key=str):
            unit.add_effect(do.CleanUpContainer(tag=tag))

    def spared(self, unit: UnitOfWork, tags: Collection[Tag]) -> frozenset[Tag]:
        """The containers among `tags` that an operator chose to leave alone."""
        return frozenset(tag for tag in tags if tag in self.restoration.spared and not _is_recorded_as_ended(unit, tag))

    def _resume_attempt(
        self,
        unit: UnitOfWork,
        tag: Tag,
        present: AbstractSet[Tag],
        machines: Mapping[Tag, MachineName],
        site: MachineSet,
    ) -> None:
        """Advance the job to the attempt of an existing container.

        The attempts in between count as lost. An attempt with a container that can still report its end stops this. A
        child to which its array has still to apply its hold waits for a later survey.
        """
        while (job := unit.apply_parent_order(tag.job_id)) is not None and _is_behind(job, tag):
            queue = self._catalog.queues.get(job.spec.queue)
            if (
                queue is None
                or awaits_hold(unit, job)
                or (job.status in ACTIVE and not present.isdisjoint(tags_under_way(job)))
            ):
                return
            if job.status in ACTIVE:
                unit.step(job.id, on.AttemptSuperseded(attempt=attempt_of(job).number))
            else:
                _place(unit, job, _environment(queue, machines.get(tag), site), _machines_of(job, tag, machines))

    def on_committed(self, committed: Committed) -> None:
        staged = committed.unit.container_engine
        if staged.unknown_containers is not None:
            self._log_unknown(staged.unknown_containers)
        if staged.restoration is not None:
            self.apply(staged.restoration)

    def _log_unknown(self, unknown: frozenset[Tag]) -> None:
        for tag in sorted(unknown - (self.unknown_containers or frozenset()), key=str):
            log.warning("container %s has no job in the restored data; it is not removed", tag)
        self.unknown_containers = unknown


def _is_behind(job: Job, tag: Tag) -> bool:
    now_at = len(job.attempts) if job.attempt is None else job.attempt.number
    return job.status in QUEUED | ACTIVE and now_at < tag.attempt


def _awaits_array(unit: UnitOfWork, job_id: JobId) -> bool:
    """Whether the job is a child that its array has still to spawn, or to hold or release."""
    job = unit.get(job_id)
    return will_be_spawned(unit, job_id) if job is None else awaits_hold(unit, job)


def _should_run(job: Job, tag: Tag) -> bool:
    """Whether the container should run and has no stop order."""
    if tag not in tags_running(job):
        return False
    return job.stop is None and not container_with_key(job, tag.container_key).stop_ordered


def _environment(queue: JobQueue, machine: MachineName | None, site: MachineSet) -> EnvironmentName:
    """The first environment of the queue that runs jobs on the machine; the first one if the machine is not known."""
    own = (name for name in queue.environments if any(selected.name == machine for selected in site.selected([name])))
    return next(own, queue.environments[0])


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


def _place(unit: UnitOfWork, job: Job, environment: EnvironmentName, machines: tuple[MachineName, ...]) -> None:
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
