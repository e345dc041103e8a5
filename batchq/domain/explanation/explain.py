"""`explain`: the explanation of any job for a reader, and those of STARTING and RUNNING jobs. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from batchq.domain import wording
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.explanation import capacity_reasons, ended_reasons, queued_reasons, started_reasons
from batchq.domain.explanation.ended import explain_ended, explain_stopping, order_figures
from batchq.domain.explanation.ended_reasons import UnreadableReason
from batchq.domain.explanation.explanation import Explanation, Figure, Figures
from batchq.domain.explanation.facts import Reader, RelatedJobs, SchedulerState, StartPhase, StartProgress
from batchq.domain.explanation.queued import explain_held, explain_obstructed, explain_pending, explain_runnable
from batchq.domain.explanation.queued_reasons import EngineUnavailableReason
from batchq.domain.explanation.started_reasons import (
    CleaningUpReason,
    CreatingContainerReason,
    HostFailureReason,
    NoRetryReason,
    PullingImageReason,
    RunningReason,
    StartingContainersReason,
    StartingMachineAwayReason,
    StartRefusedReason,
)
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.container_rules import container_with_key
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.lifecycle.reconcile import tags_under_way
from batchq.domain.machines import LOCAL, machine_of
from batchq.domain.scheduling.backfill import latest_end

#: The reasons, in the order of their definition.
REASONS: tuple[type[Explanation], ...] = tuple(
    reason
    for module in (queued_reasons, capacity_reasons, started_reasons, ended_reasons)
    for reason in vars(module).values()
    if isinstance(reason, type)
    and reason.__module__ == module.__name__
    and issubclass(reason, Explanation)
    and reason.code
)


def explain(job: Job, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a job that the reader may see.

    Other jobs, queues and accounts that the reader may not see are not named.
    """
    if is_damaged(job):
        return UnreadableReason()
    if job.held:
        return explain_held(job, state)
    match job.status:
        case Status.SUBMITTED | Status.PENDING:
            return explain_pending(job, neighbours, state, reader)
        case Status.RUNNABLE:
            return explain_runnable(job, neighbours, state, reader)
        case Status.STARTING:
            return explain_starting(job, state, reader)
        case Status.RUNNING:
            return explain_running(job, state)
        case Status.SUCCEEDED | Status.FAILED:
            return explain_ended(job, neighbours, reader, state.now)


def explain_running(job: Job, state: SchedulerState) -> Explanation:
    """The explanation of a RUNNING job."""
    stopped = explain_stopping(job, state.now)
    if stopped is not None:
        return stopped
    since, end = job.started_at, None if job.attempt is None else latest_end(job, state.now)
    figures = _placed(job) | {"startedAt": Figure(since), "length": _length(since, state)}
    if end is not None and job.spec.timeout is not None and since is not None:
        figures["endsBy"] = Figure(end, wording.duration_words(since + job.spec.timeout - state.now))
    if state.obstacle is not None and state.obstacle.reason is EngineUnavailableReason and state.obstacle.since:
        figures["away"] = _length(state.obstacle.since, state)
    figures |= _absent_machine(job, state)
    cancel = job.cancel
    if cancel is None:
        return RunningReason(since=since, figures=figures)
    return NoRetryReason(since=cancel.ordered_at, figures=figures | order_figures(job, cancel, state.now))


def _absent_machine(job: Job, state: SchedulerState) -> Figures:
    """The first machine of the job that does not answer; empty if all answer."""
    if state.cluster is None or job.attempt is None:
        return {}
    machines = state.cluster.machines.by_name
    for tag in tags_under_way(job):
        name = container_with_key(job, tag.container_key).machine
        machine = machine_of(name, machines)
        if machine is not None and (since := machine.away_since) is not None:
            return {
                "machine": Figure.text(name or LOCAL),
                "machineAwaySince": Figure(since),
                "machineAway": Figure(words=wording.duration_words(state.now - since)),
            }
    return {}


def explain_starting(job: Job, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a STARTING job."""
    stopped = explain_stopping(job, state.now)
    if stopped is not None:
        return stopped
    if state.obstacle is not None:
        return explain_obstructed(state, reader)
    starts = [start for tag in tags_under_way(job) if (start := state.starts.get(tag)) is not None]
    blocked = _of_phases(job, starts, state, reader)
    if blocked is not None:
        return blocked
    placed_at = None if job.attempt is None else job.attempt.placed_at
    figures = _placed(job) | {"length": _length(placed_at, state)}
    if job.attempt is not None and len(job.attempt.containers) > 1:
        return StartingContainersReason(since=placed_at, figures=figures | _containers(job.attempt))
    order = {} if job.cancel is None else order_figures(job, job.cancel, state.now)
    return CreatingContainerReason(since=placed_at, figures=figures | order)


def _of_phases(job: Job, starts: Sequence[StartProgress], state: SchedulerState, reader: Reader) -> Explanation | None:
    """The explanation by what the starts of the containers do; None if they only create and start."""
    by_phase = {progress.phase: progress for progress in starts}
    if (start := by_phase.get(StartPhase.HOST_FAILED)) is not None:
        return _host_failed(job, start, state, reader)
    if (start := by_phase.get(StartPhase.REFUSED)) is not None:
        figures = {
            "refusals": Figure.count(start.refusals + 1, "time"),
            "error": Figure(start.error, wording.short(start.error)),
        }
        return StartRefusedReason(since=start.since, figures=_placed(job) | figures)
    if (start := by_phase.get(StartPhase.PULLING)) is not None:
        absent = _absent_machine(job, state)
        if absent:
            figures = {"image": Figure.text(start.image)} | absent
            return StartingMachineAwayReason(since=start.since, figures=figures)
        return _pulling(start, state)
    if (start := by_phase.get(StartPhase.CLEANING_UP)) is not None:
        return CleaningUpReason(since=start.since)
    return None


def _host_failed(job: Job, start: StartProgress, state: SchedulerState, reader: Reader) -> Explanation:
    """The error may come from the start of another user's job, so only operators and admins read it."""
    figures = _placed(job) | {"length": _length(start.since, state)}
    if start.error and reader.caller.reaches_all:
        figures["detail"] = Figure(start.error, wording.short(start.error))
    return HostFailureReason(since=start.since, figures=figures)


def _pulling(start: StartProgress, state: SchedulerState) -> Explanation:
    waiting = {
        tag.job_id
        for tag, progress in state.starts.items()
        if progress.phase is StartPhase.PULLING and progress.image == start.image
    }
    figures = {
        "image": Figure.text(start.image),
        "length": _length(start.since, state),
        "jobsWaiting": Figure(len(waiting)),
    }
    if len(waiting) > 1:
        figures["others"] = Figure(words=wording.counted(len(waiting), "job waits", "jobs wait"))
    return PullingImageReason(since=start.since, figures=figures)


def _containers(attempt: Attempt) -> Figures:
    """How many containers the attempt has, and what those do that do not run."""
    states = Counter(container.state for container in attempt.containers)
    return {
        "containers": Figure.count(len(attempt.containers), "container"),
        "starting": Figure.count(states[AttemptContainerState.STARTING]),
        "waiting": Figure.count(states[AttemptContainerState.WAITING], "waits", "wait"),
    }


def _length(since: datetime | None, state: SchedulerState) -> Figure:
    """The duration since a time, for sentences only; None: 0 s."""
    return Figure(words=wording.duration_words(state.now - (since or state.now)))


def _placed(job: Job) -> Figures:
    """Where the attempt is placed, and which attempt it is."""
    if job.attempt is None:
        return {"computeEnvironment": Figure(words="an unknown environment")}
    return {
        "computeEnvironment": Figure.text(job.attempt.environment),
        "attempt": Figure(job.attempt.number),
        "attempts": Figure(job.max_attempts),
    }
