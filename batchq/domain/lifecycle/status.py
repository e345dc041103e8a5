"""Status changes of jobs: the only module that writes a status, and only along `EDGES`. Pure.

- `finish` ends an attempt: `verdict` decides whether the job SUCCEEDED, FAILED or is retried.
- `with_history` renders a job with its recent history for errors and logs.
- `start_time` and `exited` convert times that the container engine reports to batchq's clock: the two clocks may
  differ, and the container engine's may be set while containers run.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import status_reasons
from batchq.domain.enums import FINISHED, Action, AttemptContainerState, Status, StopKind
from batchq.domain.events import ContainerCreated, ContainerExited
from batchq.domain.job import Attempt, AttemptContainer, ExitRule, Job
from batchq.domain.stop_values import StopOrder

#: The changed job, and the effects to execute once it is saved.
Outcome = tuple[Job, tuple[do.Effect, ...]]

#: An entry of a job's history: when it happened (None: it did not), and its text.
Move = tuple[datetime | None, str]

MAX_MOVES = 8  # history entries in an error or a log line

#: The status changes that are possible, as AWS Batch documents them. The diagram in README is generated from this.
EDGES: Mapping[Status, frozenset[Status]] = {
    Status.SUBMITTED: frozenset({Status.PENDING, Status.RUNNABLE, Status.FAILED}),
    Status.PENDING: frozenset({Status.RUNNABLE, Status.SUCCEEDED, Status.FAILED}),  # SUCCEEDED: arrays only
    Status.RUNNABLE: frozenset({Status.STARTING, Status.FAILED}),
    Status.STARTING: frozenset({Status.RUNNING, Status.RUNNABLE, Status.FAILED}),
    Status.RUNNING: frozenset({Status.SUCCEEDED, Status.RUNNABLE, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
}


def finish(job: Job, ended: Attempt, now: datetime, status_reason: str, *, is_superseded: bool = False) -> Job:
    """End the attempt under way as `ended`, and with it the job, or make the job RUNNABLE for the next attempt.

    `status_reason`: of the attempt, unless an order stopped it: then the reason of the order is stored.
    `is_superseded`: a later attempt is known to exist. The job goes on, unless an order ends it. If the attempt was the
    last one that the retry strategy permits, a pause has ended it.
    """
    order = job.cancel if job.stop is None or job.is_pausing else job.stop  # it ends the job; a pause does not
    stops = order is not None and order.kind is not StopKind.CANCEL
    ended = replace(ended, status_reason=order.reason if order is not None and stops else status_reason)
    decided = verdict(job, ended)
    if is_superseded and order is None and not job.is_pausing and decided is Verdict.FAIL:
        decided, ended = Verdict.RETRY, replace(ended, paused=ended.number >= job.max_attempts)
    if decided is Verdict.PAUSE and job.stop is not None:
        ended = replace(ended, paused=True, status_reason=status_reasons.held(job.stop.reason, paused=True))
    over = replace(
        job,
        attempts=(*job.attempts, ended),
        started_at=ended.started_at,
        stopped_at=ended.stopped_at,
        stop_orders=job.stop_orders and tuple(order.ended for order in job.stop_orders),
    )
    match decided:
        case Verdict.SUCCEED:
            return move_to_final(over, Status.SUCCEEDED, now, status_reason)
        case Verdict.FAIL:
            return move_to_final(over, Status.FAILED, now, ended.status_reason if order is None else order.reason)
        case Verdict.RETRY | Verdict.PAUSE:
            shown = None if decided is Verdict.PAUSE else status_reason
            return with_hold_shown(replace(to_runnable(over, now), attempt=None, stopped_at=None, status_reason=shown))


def abandon(job: Job, now: datetime) -> Job:
    """End a job whose start was abandoned for its stop order: FAILED, and the start does not count as an attempt.

    A pause ends only the attempt, which keeps its number.
    """
    assert job.stop is not None, f"a start was abandoned without a stop order: {with_history(job)}"
    if job.is_pausing:
        return finish(job, replace(attempt_of(job), stopped_at=now), now, status_reasons.NOT_STARTED)
    return move_to_final(job, Status.FAILED, now, job.stop.reason)


def move_to_final(job: Job, status: Status, now: datetime, reason: str | None) -> Job:
    """Move the job to a final status with this status reason, and clear what only an unfinished job has."""
    stopped = job.stopped_at or max(now, job.started_at or now)
    return move_to(
        job,
        status,
        attempt=None,
        unschedulable=False,
        hold=None,
        blocked_at=None,
        promised_start=None,
        status_reason=reason,
        stopped_at=stopped,
    )


def move_to(job: Job, status: Status, **changes: object) -> Job:
    """Move the job to another status, with other changes. AssertionError if `EDGES` has no such edge."""
    assert status in EDGES[job.status], f"no edge to {status} for {with_history(job)}"
    return replace(job, status=status, **changes)


def to_runnable(job: Job, now: datetime) -> Job:
    """Let the job wait for its next attempt."""
    return move_to(job, Status.RUNNABLE, runnable_at=now)


def with_hold_shown(job: Job) -> Job:
    """The queued job with the status reason of its hold, and without results of the placement pass.

    Unchanged without a hold.
    """
    if job.hold is None:
        return job
    return replace(
        job,
        unschedulable=False,
        blocked_at=None,
        promised_start=None,
        status_reason=status_reasons.held(job.hold.reason, paused=job.hold.paused),
    )


def attempt_of(job: Job) -> Attempt:
    """The attempt under way. AssertionError if there is none."""
    assert job.attempt is not None, f"no attempt under way: {with_history(job)}"
    return job.attempt


def with_history(job: Job) -> str:
    """One line for an error or a log: the job's present state, then its recent history, oldest entry first."""
    orders = ", ".join(order.kind for order in job.stop_orders) or "none"
    state = f"{job.id}: {job.status}, attempt {_in_short(job.attempt)}, {len(job.attempts)} ended, orders {orders}"
    return f"{state}; history: {', '.join(recent_moves(job))}"


def recent_moves(job: Job) -> tuple[str, ...]:
    """The last MAX_MOVES entries of the job's history, oldest first, each with its time. Derived from the job alone."""
    known = [
        (job.created_at, "submitted"),
        *(move for attempt in job.all_attempts for move in _moves_of(attempt)),
        (job.blocked_at, f"blocked ({job.status_reason})"),
        *(move for order in job.stop_orders for move in _moves_of_order(order)),
        (job.stopped_at if job.status in FINISHED else None, f"{job.status} ({job.status_reason})"),
    ]
    # By timestamp: a damaged record may have times without a time zone, which cannot be compared.
    moves = sorted(((at, move) for at, move in known if at is not None), key=lambda pair: pair[0].timestamp())
    return tuple(f"{at.isoformat(timespec='milliseconds')} {move}" for at, move in moves[-MAX_MOVES:])


def _moves_of(attempt: Attempt) -> Iterator[Move]:
    name = f"attempt {attempt.number}"
    yield attempt.placed_at, f"{name} placed on {attempt.environment}"
    several = attempt.containers if len(attempt.containers) > 1 else ()
    timed: tuple[Attempt | AttemptContainer, ...] = (attempt, *several)
    for container in timed:
        whole = name if isinstance(container, Attempt) else f"{name} container {container.key}"
        yield container.started_at, f"{whole} started"
        yield container.stopped_at, f"{whole} ended (exit code {container.exit_code}, {container.reason})"


def _moves_of_order(order: StopOrder) -> Iterator[Move]:
    yield order.ordered_at, f"{order.kind} ordered by {order.user or 'the server'} ({order.reason})"
    yield order.signalled_at, "stop signal delivered"
    yield order.killed_at, "first kill"


def _in_short(attempt: Attempt | None) -> str:
    if attempt is None:
        return "none"
    containers = ", ".join(f"{container.key} {container.state}".strip() for container in attempt.containers)
    return f"{attempt.number} ({containers})"


class Verdict(StrEnum):
    """The consequence of an ended attempt for its job."""

    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    RETRY = "RETRY"
    #: The job waits for its next attempt, and this one does not count.
    PAUSE = "PAUSE"


def verdict(job: Job, ended: Attempt) -> Verdict:
    """Decide what follows for the job from its ended attempt. The order of the checks is part of the contract.

    - A stop order that was saved before the end decides, whatever the exit code: programs often exit with 0 on a stop
      signal. A TerminateJob or a timeout fails the job. A pause lets the job wait for its next attempt, unless the job
      was also cancelled or refused.
    - Without a stop order exit code 0 succeeds, even after a CancelJob.
    - Otherwise the job fails if it was cancelled or refused, or has used its attempts; else its evaluateOnExit decides.
    """
    if job.stop is not None and not job.is_pausing:
        return Verdict.FAIL
    if job.is_pausing:
        return Verdict.FAIL if job.cancel is not None or ended.forbidden else Verdict.PAUSE
    if ended.exit_code == 0:
        return Verdict.SUCCEED
    if job.cancel is not None or ended.forbidden:
        return Verdict.FAIL
    if ended.number >= job.max_attempts:
        return Verdict.FAIL
    return Verdict.RETRY if evaluate_on_exit(job.spec.retry.evaluate_on_exit, ended) is Action.RETRY else Verdict.FAIL


def evaluate_on_exit(rules: tuple[ExitRule, ...], ended: Attempt) -> Action:
    """The action of the first evaluateOnExit entry that matches. AWS: if none matches, the job is retried."""
    return next((rule.action for rule in rules if matches(rule, ended)), Action.RETRY)


def matches(rule: ExitRule, ended: Attempt) -> bool:
    """Whether all patterns that the entry has match the attempt."""
    code = None if ended.exit_code is None else str(ended.exit_code)
    return (
        _like(rule.on_status_reason, ended.status_reason)
        and _like(rule.on_reason, ended.reason)
        and _like(rule.on_exit_code, code)
    )


def _like(pattern: str | None, text: str | None) -> bool:
    """Whether `text` matches. The pattern `*` also matches None: AWS documents `onReason: "*"` as the catch-all."""
    if pattern is None or pattern == "*":
        return True
    if text is None:
        return False
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


NOTHING = timedelta()


def start_time(reported: datetime, *, requested_at: datetime | None, now: datetime) -> datetime:
    """When a container started, by batchq's clock: not before its start was requested, and not after `now`.

    `reported`: the start by the container engine's clock. `requested_at`: when batchq requested the start; None: not
    known. Timeouts count from the result.
    """
    return min(reported + _clock_step_back(reported, requested_at, now), now)


def exited(container: AttemptContainer, event: ContainerExited, now: datetime) -> AttemptContainer:
    """The container as ended, with its exit code. The duration is the container engine's, and never negative."""
    set_back = _clock_step_back(event.started_at, container.start_requested_at, now)
    return replace(
        container,
        state=AttemptContainerState.ENDED,
        host_lost=event.host_lost,
        started_at=event.started_at + set_back,
        stopped_at=max(event.stopped_at, event.started_at) + set_back,
        exit_code=event.exit_code,
        reason=_exit_reason(event),
    )


def _exit_reason(event: ContainerExited) -> str | None:
    if event.exit_code == 0:
        return None
    if event.out_of_memory:
        return status_reasons.OUT_OF_MEMORY
    return None if event.failure is None else f"{status_reasons.ALGORITHM_ERROR}{event.failure}"


def _clock_step_back(reported: datetime, requested_at: datetime | None, now: datetime) -> timedelta:
    """The least correction of the container engine's times: no container starts before its start is requested.

    Zero if the request's time is not known, or lies after `now` because batchq's own clock was set back.
    """
    return NOTHING if requested_at is None or requested_at > now else max(requested_at - reported, NOTHING)


def created(container: AttemptContainer, event: ContainerCreated) -> AttemptContainer:
    """The container with its id, and the host paths that were created for its mounts."""
    paths = container.created_host_paths
    if event.created_host_paths:
        paths = merge_paths(paths, event.created_host_paths)
    return replace(container, container_id=event.container_id, created_host_paths=paths, pod=event.pod)


def merge_paths(known: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """All paths, in order, each once. A container that is created again keeps the paths that the first one created."""
    return tuple(dict.fromkeys((*known, *new)))
