"""Random histories of jobs: any legal event, at any moment, in any order."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hypothesis import strategies as some

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.enums import FINISHED, QUEUED, Action, Status
from batchq.domain.job import ExitRule, Job
from batchq.domain.lifecycle.containers import TRANSITIONS as CONTAINERS
from batchq.domain.lifecycle.status import with_history
from batchq.domain.lifecycle.transitions import TRANSITIONS, step
from batchq.domain.training import CHECKPOINT_SIGNALS, CheckpointRules
from tests.support.builders import NOON, job, job_id, retry

EXIT_CODES = [0, 1, 137, 143]
USERS = ["ada", "bob"]
REASONS = ["", "this", "that"]
RULES = [(), (ExitRule(action=Action.EXIT, on_exit_code="13*"),), (ExitRule(action=Action.RETRY, on_reason="*"),)]


# Events that lead on are chosen more often than others: otherwise few histories would reach RUNNING.
ONWARD = {
    Status.SUBMITTED: on.DependenciesMet,
    Status.PENDING: on.DependenciesMet,
    Status.RUNNABLE: on.Placed,
    Status.STARTING: on.ContainerStarted,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Step:
    before: Job
    event: on.Event
    now: datetime
    after: Job
    effects: tuple[do.Effect, ...]

    def __repr__(self):
        after = with_history(self.after)
        return f"\n{self.now:%X} {self.event} made {self.before.status} into {after}, wants {self.effects}"


seconds = some.integers(0, 100).map(lambda number: timedelta(seconds=number))

RULES_OF_CHECKPOINTS = some.none() | some.builds(
    CheckpointRules, signal=some.none() | some.sampled_from(sorted(CHECKPOINT_SIGNALS)), timeout=seconds
)


@some.composite
def histories(draw):
    """Each step of one job from its submission on. Each step is drawn from four bytes."""
    found, now, steps = draw(submitted_jobs()), NOON, []
    numbers = iter(draw(some.binary(min_size=32, max_size=120)))
    for which, later, detail, ago in zip(numbers, numbers, numbers, numbers, strict=False):
        now += timedelta(seconds=later % 60)
        event = random_event(found, now, which=which, detail=detail, ago=timedelta(seconds=ago % 60))
        after, effects = step(found, event, now)
        steps.append(Step(before=found, event=event, now=now, after=after, effects=effects))
        found = after
    return steps


@some.composite
def submitted_jobs(draw):
    return job(
        number=1,
        retry=retry(draw(some.sampled_from([1, 2, 3, 3, 3])), *draw(some.sampled_from(RULES))),
        timeout=draw(some.none() | seconds),
        stop_grace=draw(seconds),
        checkpoints=draw(RULES_OF_CHECKPOINTS),
    )


def random_event(other_job, now, *, which, detail, ago):
    """An event, mostly of the attempt under way, and sometimes of an earlier one."""
    kind = event_type(other_job, which)
    attempt = (other_job.attempt.number if other_job.attempt else 1) - (detail > 230)
    reason = REASONS[detail % 3]
    match kind:
        case (
            on.FoundInvalid
            | on.FoundUnschedulable
            | on.FoundBlocked
            | on.BlockedTooLong
            | on.HoldRequested
            | on.PauseRequested
        ):
            return kind(reason=reason)
        case on.ForceFailed | on.CancelRequested:  # a force-fail of a queued job would be refused
            return (on.CancelRequested if other_job.status in QUEUED else kind)(reason=reason, user=USERS[detail % 2])
        case on.DependencyFailed:
            return on.DependencyFailed(job_id=job_id(2))
        case (
            on.TerminateRequested | on.StopForced | on.CheckpointRequested | on.CheckpointSeen | on.StopSignalDelivered
        ):
            return of_a_stop(other_job, kind, attempt=attempt, detail=detail, ago=ago)
        case on.Placed:
            return on.Placed(environment="local")
        case on.ContainerCreated:
            return kind(attempt=attempt, container_id=f"container {detail}")
        case on.ContainerStarted:
            return on.ContainerStarted(attempt=attempt, started_at=now + timedelta(seconds=30) - ago)
        case on.StartFailed:
            return on.StartFailed(attempt=attempt, reason=reason, exit_code=127 if detail % 2 else None)
        case on.ContainerExited:
            code = EXIT_CODES[detail % 4]
            times = {"started_at": now - ago, "stopped_at": now - timedelta(seconds=detail % 60)}
            return on.ContainerExited(attempt=attempt, exit_code=code, out_of_memory=detail % 5 == 0, **times)
    return kind(attempt=attempt) if issubclass(kind, on.AttemptEvent) else kind()


def of_a_stop(other_job, kind, *, attempt, detail, ago):
    reason, user = REASONS[detail % 3], USERS[detail % 2]
    match kind:
        case on.TerminateRequested:
            grace, checkpoint = ago if detail % 2 else None, detail % 3 > 0
            return on.TerminateRequested(reason=reason, user=user, grace=grace, checkpoint=checkpoint)
        case on.StopForced:
            return on.StopForced(reason=reason, user=user)
        case on.CheckpointSeen:
            return on.CheckpointSeen(attempt=attempt, name=f"step-{detail}")
    late = other_job.stop is None or detail > 200
    return kind(attempt=attempt, step=0 if late or other_job.attempt is None else other_job.attempt.containers[0].step)


def event_type(other_job, which):
    """Placement passes a held job over; it is released instead."""
    leads_on = other_job.status in ONWARD and which > (60 if other_job.status in QUEUED else 170)
    kind = ONWARD[other_job.status] if leads_on else any_event(other_job, which)
    return on.ReleaseRequested if kind is on.Placed and other_job.held else kind


def any_event(other_job, which):
    """A legal event; only starts of jobs with a stop order are abandoned. Events of earlier attempts occur too."""
    refused = {
        *([] if other_job.stop else [on.StartAbandoned]),
        *([] if other_job.status in QUEUED else [on.HoldRequested]),
        *([on.PauseRequested] if other_job.status not in QUEUED and not may_pause(other_job) else []),
        *([on.ReleaseRequested, on.ResumeRequested] if other_job.status in FINISHED else []),
    }
    of_container = CONTAINERS[other_job.attempt.containers[0].state] if other_job.attempt else ()
    legal = [kind for kind in (*of_container, *TRANSITIONS[other_job.status]) if kind not in refused]
    possible = legal if other_job.attempt else [*legal, on.ContainerExited]
    return possible[which % len(possible)]


def may_pause(other_job):
    """Whether the attempt of an active job can be paused."""
    return (
        other_job.status not in FINISHED
        and other_job.cancel is None
        and (other_job.stop is None or other_job.is_pausing)
    )
