"""Why a job stops or has ended: the explanations of stop orders, and of FAILED and SUCCEEDED jobs. Pure."""

from datetime import datetime, timedelta

from batchq.domain import status_reasons, wording
from batchq.domain.enums import Action, AttemptContainerState, Status, StopKind
from batchq.domain.explanation.ended_reasons import (
    BlockedTooLongReason,
    CancelledReason,
    ChildFailedReason,
    ContainerLostReason,
    DependencyFailedReason,
    ExitCodeReason,
    ForbiddenReason,
    ForceFailedReason,
    HostLostReason,
    ImageUnavailableReason,
    InvalidReason,
    NotStartedReason,
    OutOfMemoryReason,
    SucceededReason,
    TerminatedReason,
    TimedOutReason,
    UnreadableReason,
)
from batchq.domain.explanation.explanation import Explanation, Fact, Figure, Figures
from batchq.domain.explanation.facts import Reader, RelatedJobs
from batchq.domain.explanation.started_reasons import (
    AbandoningStartReason,
    NotExitingReason,
    StoppingReason,
    TimeLimitReason,
)
from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.container_rules import task_container_of
from batchq.domain.lifecycle.escalation import is_unkillable, under_way
from batchq.domain.lifecycle.status import evaluate_on_exit
from batchq.domain.lifecycle.stopping import latest_order, next_step_at
from batchq.domain.memory_shortage import KILLED, deciding_container, deciding_reason, lacked_memory
from batchq.domain.stop_values import StopOrder

_VERBS = {
    StopKind.PAUSE: "Paused",
    StopKind.CANCEL: "Cancelled",
    StopKind.TERMINATE: "Terminated",
    StopKind.TIMEOUT: "Stopped",
    StopKind.FORCE_FAIL: "Force-failed",
}


def order_figures(job: Job, order: StopOrder, now: datetime) -> Figures:
    """The facts of an order, and the word `order`, as `Terminated by cora 12 s ago, "too hot"`.

    The word leaves out a reason that repeats kind and user. Facts that have not happened are absent.
    """
    given = f"{_VERBS[order.kind]} by {order.user}" if order.user else _VERBS[order.kind]
    reason = "" if order.reason == given else f", {wording.quoted(order.reason)}"
    facts = {
        "kind": order.kind.value,
        "user": order.user or None,
        "reason": order.reason,
        "orderedAt": order.ordered_at,
        "checkpointRequestedAt": order.checkpoint_requested_at,
        "checkpointSeenAt": order.checkpoint_seen_at,
        "signalledAt": order.signalled_at,
        "nextStepAt": next_step_at(job) if order is job.stop else None,
        "forcedAt": order.forced_at,
        "killedAt": order.killed_at,
    }
    figures = {name: Figure(fact) for name, fact in facts.items()}
    figures["order"] = Figure(words=f"{given} {wording.duration_words(now - order.ordered_at)} ago{reason}")
    return figures


def explain_stopping(job: Job, now: datetime) -> Explanation | None:
    """Why an active job with an order to stop still is active; None without such an order."""
    order = job.stop
    if order is None:
        return None
    figures = order_figures(job, order, now) | _progress(job, order, now)
    if is_unkillable(order.killed_at, now):
        return NotExitingReason(since=order.killed_at, figures=figures)
    if order.kind is StopKind.TIMEOUT:
        return TimeLimitReason(since=order.ordered_at, figures=figures | _limit(job))
    reason = AbandoningStartReason if job.status is Status.STARTING else StoppingReason
    return reason(since=order.ordered_at, figures=figures)


def _limit(job: Job) -> Figures:
    """The time limit of an attempt; empty without a limit."""
    limit = job.spec.timeout
    if limit is None:
        return {}
    return {"timeLimitSeconds": Figure(limit / timedelta(seconds=1), wording.duration_words(limit))}


def _progress(job: Job, order: StopOrder, now: datetime) -> Figures:
    """The word `killed`, or `signal`, `signalled`, `next` and `left`; empty before a signal is delivered."""
    if order.killed_at is not None:
        return {"killed": Figure(words=wording.duration_words(now - order.killed_at))}
    containers = () if job.attempt is None else job.attempt.containers
    signalled = [
        container
        for container in containers
        if container.state is not AttemptContainerState.ENDED and container.next_step_at is not None
    ]
    first = min(signalled, key=lambda container: container.next_step_at or now, default=None)
    step = None if first is None else under_way(first)
    if first is None or first.next_step_at is None or step is None:
        return {}
    sent_at = order.checkpoint_requested_at if step.until_checkpoint else order.signalled_at
    sent = "" if sent_at is None else f" {wording.duration_words(now - sent_at)} ago"
    signal = step.signal or "the stop signal"
    return {
        "signal": Figure(words=f"{signal} for a final checkpoint" if step.until_checkpoint else signal),
        "signalled": Figure(words=f"was sent{sent}"),
        "next": Figure(words="the stop signal" if first.step + 1 < len(first.steps) else "SIGKILL"),
        "left": Figure(words=wording.duration_words(first.next_step_at - now)),
    }


_BLOCKED = status_reasons.BLOCKED_TOO_LONG.partition("{")[0]
_PULL_FAILED = "CannotPull"
_ORDERED = {
    StopKind.CANCEL: CancelledReason,
    StopKind.TERMINATE: TerminatedReason,
    StopKind.FORCE_FAIL: ForceFailedReason,
}


def explain_ended(job: Job, neighbours: RelatedJobs, reader: Reader, now: datetime) -> Explanation:
    """The explanation of a SUCCEEDED or FAILED job."""
    if job.status is Status.SUCCEEDED:
        return _succeeded(job)
    reason = job.status_reason or ""
    if reason == status_reasons.UNREADABLE:
        return UnreadableReason(since=job.stopped_at)
    ordered = _ordered(job, reason, now)
    if ordered is not None:
        return ordered
    if arrays.is_parent(job) and job.array_state is not None:
        return _child_failed(job, neighbours, reader, now)
    if job.attempts:
        return _attempt_failed(job, job.attempts[-1])
    if reason.startswith(status_reasons.DEPENDENCY_FAILED):
        return _dependency_failed(job, reason, neighbours, reader, now)
    return InvalidReason(since=job.stopped_at, figures={"reason": Figure(reason, wording.short(reason))})


def outcome_words(attempt: Attempt) -> str:
    """How an attempt ended, as `exit code 1` or `a lack of memory`."""
    if lacked_memory(attempt):
        return "a lack of memory"
    if attempt.status_reason == status_reasons.HOST_TERMINATED:
        return "the loss of the host"
    if attempt.exit_code is not None:
        return wording.exit_code(attempt.exit_code)
    return f"{wording.quoted(deciding_reason(attempt) or attempt.status_reason or 'no exit code')}"


def _succeeded(job: Job) -> Explanation:
    figures = _attempts(job)
    if job.started_at is not None and job.stopped_at is not None:
        figures["length"] = Figure(words=wording.duration_words(job.stopped_at - job.started_at))
    return SucceededReason(since=job.stopped_at, figures=figures)


def _ordered(job: Job, reason: str, now: datetime) -> Explanation | None:
    """The explanation of a job that an order ended; None for a job that ended by itself."""
    order = latest_order(job)
    if order is None:
        return None
    figures = order_figures(job, order, now)
    if order.kind is StopKind.TIMEOUT:
        return TimedOutReason(since=job.stopped_at, figures=figures | _attempts(job) | _limit(job))
    if order.kind is StopKind.CANCEL and reason.startswith(_BLOCKED):
        return _blocked_too_long(job, reason.removeprefix(_BLOCKED))
    if job.attempts:
        last = job.attempts[-1]
        figures["exitCode"] = Figure(last.exit_code, outcome_words(last))
    return _ORDERED[order.kind](since=job.stopped_at, figures=figures)


def _blocked_too_long(job: Job, reason: str) -> Explanation:
    figures = {"jobQueue": Figure.text(job.spec.queue), "reason": Figure(reason, wording.short(reason))}
    return BlockedTooLongReason(since=job.stopped_at, figures=figures)


def _child_failed(job: Job, neighbours: RelatedJobs, reader: Reader, now: datetime) -> Explanation:
    counts = dict(job.array_state.counts) if job.array_state is not None else {}
    figures = {
        "size": Figure.count(arrays.size(job), "child", "children"),
        "failed": Figure.count(counts.get(Status.FAILED, 0)),
        "succeeded": Figure.count(counts.get(Status.SUCCEEDED, 0)),
    }
    child = neighbours.failed_child
    if child is not None and child.child is not None:
        cause = explain_ended(child, RelatedJobs(), reader, now)
        figures["index"] = Figure(words=str(child.child.index))
        fact: dict[str, Fact] = {"jobId": child.id, "index": child.child.index, "code": cause.code}
        figures["child"] = Figure(fact, cause.sentence)
    return ChildFailedReason(since=job.stopped_at, figures=figures)


def _dependency_failed(job: Job, reason: str, neighbours: RelatedJobs, reader: Reader, now: datetime) -> Explanation:
    """A failed dependency that the reader may see is named with its own reason; others are not."""
    job_id = JobId(reason.rpartition(": ")[2])
    found = neighbours.jobs.get(job_id)
    if found is None:
        return DependencyFailedReason(since=job.stopped_at)
    if not reader.sees(found):
        return DependencyFailedReason(
            since=job.stopped_at, figures={"dependency": Figure(words=f"({reader.job(found)})")}
        )
    fact: dict[str, Fact] = {"jobId": found.id, "jobName": found.spec.name}
    figures = {"dependency": Figure(fact, reader.job(found))}
    if found.status is Status.FAILED:
        cause = explain_ended(found, RelatedJobs(), reader, now)
        fact["code"] = cause.code
        figures["cause"] = Figure(words=cause.sentence)
    return DependencyFailedReason(since=job.stopped_at, figures=figures)


def _attempt_failed(job: Job, attempt: Attempt) -> Explanation:
    """The explanation by the last attempt and the container that decided it."""
    container, reason = deciding_container(attempt), deciding_reason(attempt)
    spec = job.spec.container if container is None else task_container_of(job, container).spec
    memory = spec.resources.memory_mib
    figures = _attempts(job) | {
        "memoryMiB": Figure(memory, wording.memory_words(memory)),
        "image": Figure.text(spec.image),
    }
    if reason:
        figures["reason"] = Figure(reason, wording.short(reason))
    outcome = wording.quoted(reason) if reason else "no exit code"
    if attempt.exit_code is not None:
        outcome = wording.exit_code(attempt.exit_code)
    figures["exitCode"] = Figure(attempt.exit_code, outcome)
    if container is not None and container.key:
        figures["container"] = Figure(container.name)
    peak = None if container is None or container.use is None else container.use.peak_memory
    if peak is not None:
        figures["peakMemoryBytes"] = Figure(peak, wording.bytes_words(peak))
    if attempt.exit_code == KILLED:
        figures["memoryLimit"] = Figure(words=wording.memory_words(memory))
    return _reason_class(attempt, reason)(since=job.stopped_at, figures=figures)


def _reason_class(attempt: Attempt, reason: str) -> type[Explanation]:
    if attempt.forbidden:
        return ForbiddenReason
    if lacked_memory(attempt):
        return OutOfMemoryReason
    if status_reasons.HOST_TERMINATED in {attempt.status_reason, reason}:
        return HostLostReason
    if status_reasons.DISAPPEARED in {attempt.status_reason, reason}:
        return ContainerLostReason
    if attempt.status_reason == status_reasons.NOT_STARTED:
        return ImageUnavailableReason if reason.startswith(_PULL_FAILED) else NotStartedReason
    return ExitCodeReason


def _attempts(job: Job) -> Figures:
    """Which attempt was the last, of how many. Without words for a job with one attempt."""
    if not job.attempts:
        return {}
    last, most, verdict = job.attempts[-1].number, job.max_attempts, _verdict(job)
    return {
        "attempt": Figure(last, None if most == 1 else str(last)),
        "attempts": Figure(most, None if most == 1 else str(most)),
        "verdict": Figure(verdict, verdict),
    }


def _verdict(job: Job) -> str | None:
    """Why a failed job with attempts left was not retried; None if it has none left."""
    last = job.attempts[-1]
    if job.status is not Status.FAILED or last.number >= job.max_attempts:
        return None
    if last.forbidden:
        return "a refusal is not retried"
    is_rule = evaluate_on_exit(job.spec.retry.evaluate_on_exit, last) is Action.EXIT
    return "a rule of evaluateOnExit ended the job" if is_rule else None
