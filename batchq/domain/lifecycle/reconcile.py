"""Which containers the container engine should have, and the reconciliation of the stored jobs with a survey. Pure.

A survey lists all batchq containers that the container engine has. The container engine's events may be lost, so a
survey is authoritative. It has no exit codes: a container that has stopped is inspected, and the inspection reports its
exit. A survey is older than the moment at which it is processed, so a missing container counts as lost only if it was
running when the survey began.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import AttemptContainerState
from batchq.domain.ids import JobId, MachineName, Tag
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.lifecycle import escalation
from batchq.domain.lifecycle.container_rules import BEGUN, container_with_key
from batchq.domain.lifecycle.containers import ended_keys, removable
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.machines import Machine, machine_of

_RUNNING = (AttemptContainerState.RUNNING,)
NO_MACHINES: Mapping[MachineName, Machine] = {}


class SurveyedContainer(Struct, frozen=True, kw_only=True):
    """A batchq container in a survey."""

    tag: Tag
    #: Whether it is running or paused.
    running: bool
    #: Whether it was ever started; False: it was only created.
    started: bool = True
    #: The machine on which it was started; None: the container engine has only one, or it was not started.
    machine: MachineName | None = None


class Reconciled(Struct, frozen=True, kw_only=True):
    """The differences between the stored jobs and a survey."""

    #: Events to apply: the containers that ran and no longer exist.
    events: tuple[tuple[JobId, on.ContainerLost], ...]
    #: What the containers under way still need, and the clean-up of containers that stored jobs no longer need.
    effects: tuple[do.Effect, ...]
    #: Containers of jobs that are not stored.
    orphans: tuple[Tag, ...]


def reconcile(
    *,
    active: Mapping[JobId, Job],
    known: Collection[JobId],
    surveyed: Sequence[SurveyedContainer],
    expected: Collection[Tag],
    lost_before: datetime | None = None,
    machines: Mapping[MachineName, Machine] = NO_MACHINES,
) -> Reconciled:
    """Compare the active jobs with a survey.

    `known`: the ids of the jobs in the survey that are stored, active or not. `expected`: the containers that were
    running when the survey began, as far as batchq knew. `lost_before`: a lost container that started before this
    moment was lost because the container engine or the machine went down, and its attempt gets AWS's reason of a
    terminated host; None: not known to have gone down. `machines`: those of the container engine, by name. A container
    whose machine has left is lost with its host. One whose machine does not answer is not lost: it may still run there.
    """
    present = {container.tag: container for container in surveyed}
    under_way = {tag: job for job in active.values() for tag in tags_under_way(job)}
    kept = {tag for job in active.values() for tag in tags_to_keep(job)}
    absent = [tag for tag in under_way if tag in expected and tag not in present]
    lost = [tag for tag in absent if not is_on_absent_machine(under_way[tag], tag, machines)]
    leftovers = [tag for tag in present if tag not in under_way and tag not in kept]
    return Reconciled(
        events=tuple((tag.job_id, _lost(under_way[tag], tag, lost_before, machines)) for tag in lost),
        effects=(
            *(effect for tag, job in under_way.items() for effect in effects_for(job, tag, present.get(tag))),
            *(do.CleanUpContainer(tag=tag) for tag in leftovers if tag.job_id in known),
        ),
        orphans=tuple(tag for tag in leftovers if tag.job_id not in known),
    )


def is_on_absent_machine(job: Job, tag: Tag, machines: Mapping[MachineName, Machine]) -> bool:
    """Whether the machine of the container does not answer."""
    machine = machine_of(container_with_key(job, tag.container_key).machine, machines)
    return machine is not None and machine.away_since is not None


def _lost(job: Job, tag: Tag, before: datetime | None, machines: Mapping[MachineName, Machine]) -> on.ContainerLost:
    container = container_with_key(job, tag.container_key)
    began, machine = container.started_at, machine_of(container.machine, machines)
    has_left = container.machine is not None and machine is None
    before = before if machine is None else machine.lost_before or before
    if not has_left and (before is None or began is None or began >= before):
        return on.ContainerLost(attempt=tag.attempt, container_key=tag.container_key)
    return on.ContainerLost(attempt=tag.attempt, container_key=tag.container_key, reason=status_reasons.HOST_TERMINATED)


def effects_for(job: Job, tag: Tag, surveyed: SurveyedContainer | None) -> tuple[do.Effect, ...]:
    """The effects that a container under way still needs; `surveyed` None: the survey did not contain it.

    Effects are idempotent, so an effect that is in progress may be requested again. That includes SIGKILL: a server
    may have saved it and died before it was sent.
    """
    stop = stopped_container(job, tag)
    if container_with_key(job, tag.container_key).state is AttemptContainerState.STARTING:
        start = do.StartContainer(tag=tag)
        return (start,) if stop is None else (start, do.AbandonStart(tag=tag))
    if surveyed is not None and not surveyed.running:
        return (do.InspectContainer(tag=tag),)
    effect = None if stop is None else escalation.next_effect(tag, None, stop)
    return () if effect is None else (effect,)


def stopped_container(job: Job, tag: Tag) -> AttemptContainer | None:
    """The container, if it is ordered to stop, else None."""
    container = container_with_key(job, tag.container_key)
    return container if container.stop_ordered else None


def container_tags(job: Job) -> tuple[Tag, ...]:
    """The tags of the containers of all attempts of the job, including containers that may never have run."""
    return tuple(
        Tag(job_id=job.id, attempt=attempt.number, container_key=key)
        for attempt in job.all_attempts
        for key in (container.key for container in attempt.containers)
    )


def tags_under_way(job: Job) -> tuple[Tag, ...]:
    """The containers of a job that are starting or running."""
    return _tags(job, BEGUN)


def tags_running(job: Job) -> tuple[Tag, ...]:
    """The containers of a job that were reported as running: a survey must contain them."""
    return _tags(job, _RUNNING)


def _tags(job: Job, states: Collection[AttemptContainerState]) -> tuple[Tag, ...]:
    if job.attempt is None:
        return ()
    tag = job.tag
    return tuple(
        [replace(tag, container_key=container.key) for container in job.attempt.containers if container.state in states]
    )


def tags_to_keep(job: Job) -> tuple[Tag, ...]:
    """The containers that have ended but are not removed yet, because others of the attempt have still to start."""
    containers = attempt_of(job).containers
    kept = () if removable(containers) else ended_keys(containers)
    return tuple(replace(job.tag, container_key=key) for key in kept)
