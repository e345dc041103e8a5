"""Why a job stops or has ended: the explanations of stop orders, and of FAILED and SUCCEEDED jobs. Pure."""

from datetime import datetime, timedelta

from batchq.domain import status_reasons
from batchq.domain.enums import Action, AttemptContainerState, Status, StopKind
from batchq.domain.explanation import words
from batchq.domain.explanation.codes import Code, Explanation, Fact
from batchq.domain.explanation.facts import Reader, RelatedJobs
from batchq.domain.explanation.words import explanation
from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.container_rules import task_container_of
from batchq.domain.lifecycle.escalation import under_way
from batchq.domain.lifecycle.status import evaluate_on_exit
from batchq.domain.lifecycle.stopping import UNKILLABLE_AFTER, latest_order
from batchq.domain.stop_values import StopOrder

_VERBS = {
    StopKind.PAUSE: "Paused",
    StopKind.CANCEL: "Cancelled",
    StopKind.TERMINATE: "Terminated",
    StopKind.TIMEOUT: "Stopped",
    StopKind.FORCE_FAIL: "Force-failed",
}


def order_words(order: StopOrder, now: datetime) -> dict[str, str]:
    """The word `order`, as `Terminated by cora 12 s ago, "too hot"`; without a reason that repeats kind and user."""
    given = f"{_VERBS[order.kind]} by {order.user}" if order.user else _VERBS[order.kind]
    reason = "" if order.reason == given else f", {words.quoted(order.reason)}"
    return {"order": f"{given} {words.duration_words(now - order.ordered_at)} ago{reason}"}


def order_facts(order: StopOrder) -> dict[str, Fact]:
    """The facts of an order; absent are those that have not happened."""
    times = {
        "checkpointRequestedAt": order.checkpoint_requested_at,
        "checkpointSeenAt": order.checkpoint_seen_at,
        "signalledAt": order.signalled_at,
        "nextStepAt": order.next_step_at,
        "forcedAt": order.forced_at,
        "killedAt": order.killed_at,
    }
    named: dict[str, Fact] = {"kind": order.kind.value, "reason": order.reason, "orderedAt": order.ordered_at}
    if order.user:
        named["user"] = order.user
    return named | {name: at for name, at in times.items() if at is not None}


def explain_stopping(job: Job, now: datetime) -> Explanation | None:
    """Why an active job with an order to stop still is active; None without such an order."""
    order = job.stop
    if order is None:
        return None
    text, facts = order_words(order, now) | _progress(job, order, now), order_facts(order)
    if order.killed_at is not None and now - order.killed_at >= UNKILLABLE_AFTER:
        return explanation(Code.NOT_EXITING, since=order.killed_at, facts=facts, words=text)
    if order.kind is StopKind.TIMEOUT:
        limit_facts, limit_words = _limit(job)
        return explanation(Code.TIME_LIMIT, since=order.ordered_at, facts=facts | limit_facts, words=text | limit_words)
    code = Code.ABANDONING_START if job.status is Status.STARTING else Code.STOPPING
    return explanation(code, since=order.ordered_at, facts=facts, words=text)


def _limit(job: Job) -> tuple[dict[str, Fact], dict[str, str]]:
    """The time limit of an attempt; nothing without a limit."""
    if job.spec.timeout is None:
        return {}, {}
    limit = job.spec.timeout
    return {"timeLimitSeconds": limit / timedelta(seconds=1)}, {"limit": words.duration_words(limit)}


def _progress(job: Job, order: StopOrder, now: datetime) -> dict[str, str]:
    """The word `killed`, or `signal`, `signalled`, `next` and `left`; none before a signal is delivered."""
    if order.killed_at is not None:
        return {"killed": words.duration_words(now - order.killed_at)}
    stopped: list[StopOrder | AttemptContainer] = [order, *_not_ended(job)]
    signalled = [item for item in stopped if item.next_step_at is not None]
    first = min(signalled, key=lambda item: item.next_step_at or now, default=None)
    step = None if first is None else under_way(first)
    if first is None or first.next_step_at is None or step is None:
        return {}
    sent_at = order.checkpoint_requested_at if step.until_checkpoint else order.signalled_at
    sent = "" if sent_at is None else f" {words.duration_words(now - sent_at)} ago"
    signal = step.signal or "the stop signal"
    return {
        "signal": f"{signal} for a final checkpoint" if step.until_checkpoint else signal,
        "signalled": f"was sent{sent}",
        "next": "the stop signal" if first.step + 1 < len(first.steps) else "SIGKILL",
        "left": words.duration_words(first.next_step_at - now),
    }


def _not_ended(job: Job) -> list[AttemptContainer]:
    containers = () if job.attempt is None else job.attempt.containers
    return [container for container in containers if container.state is not AttemptContainerState.ENDED]


_BLOCKED = status_reasons.BLOCKED_TOO_LONG.partition("{")[0]
_KILLED = 137  # the exit code after SIGKILL; Docker loses about one event of 50 about a lack of memory (decision 0055)
_PULL_FAILED = "CannotPull"
_CODES = {StopKind.CANCEL: Code.CANCELLED, StopKind.TERMINATE: Code.TERMINATED, StopKind.FORCE_FAIL: Code.FORCE_FAILED}


def explain_ended(job: Job, neighbours: RelatedJobs, reader: Reader, now: datetime) -> Explanation:
    """The explanation of a SUCCEEDED or FAILED job."""
    if job.status is Status.SUCCEEDED:
        return _succeeded(job)
    reason = job.status_reason or ""
    if reason == status_reasons.UNREADABLE:
        return explanation(Code.UNREADABLE, since=job.stopped_at, facts={}, words={})
    ordered = _ordered(job, reason, now)
    if ordered is not None:
        return ordered
    if arrays.is_parent(job) and job.array_state is not None:
        return _child_failed(job, neighbours, reader, now)
    if job.attempts:
        return _attempt_failed(job, job.attempts[-1])
    if reason.startswith(status_reasons.DEPENDENCY_FAILED):
        return _dependency_failed(job, reason, neighbours, reader, now)
    return explanation(
        Code.INVALID, since=job.stopped_at, facts={"reason": reason}, words={"reason": words.short(reason)}
    )


def outcome_words(attempt: Attempt) -> str:
    """How an attempt ended, as `exit code 1` or `a lack of memory`."""
    failed = _decisive(attempt)
    if _reason_of(attempt, failed).startswith(status_reasons.OUT_OF_MEMORY.partition(":")[0]):
        return "a lack of memory"
    if attempt.status_reason == status_reasons.HOST_TERMINATED:
        return "the loss of the host"
    if attempt.exit_code is not None:
        return words.exit_code(attempt.exit_code)
    return f"{words.quoted(_reason_of(attempt, failed) or attempt.status_reason or 'no exit code')}"


def _succeeded(job: Job) -> Explanation:
    facts, text = _attempts(job)
    if job.started_at is not None and job.stopped_at is not None:
        text["length"] = words.duration_words(job.stopped_at - job.started_at)
    return explanation(Code.SUCCEEDED, since=job.stopped_at, facts=facts, words=text)


def _ordered(job: Job, reason: str, now: datetime) -> Explanation | None:
    """The explanation of a job that an order ended; None for a job that ended by itself."""
    last = job.attempts[-1] if job.attempts else None
    text = {} if last is None else {"outcome": outcome_words(last)}
    facts: dict[str, Fact] = {} if last is None or last.exit_code is None else {"exitCode": last.exit_code}
    order = latest_order(job)
    if order is None:
        return None
    if order.kind is StopKind.TIMEOUT:
        limit_facts, limit_words = _limit(job)
        facts = order_facts(order) | _attempts(job)[0] | limit_facts
        return explanation(Code.TIMED_OUT, since=job.stopped_at, facts=facts, words=limit_words)
    if order.kind is StopKind.CANCEL and reason.startswith(_BLOCKED):
        return _blocked_too_long(job, reason.removeprefix(_BLOCKED))
    return explanation(
        _CODES[order.kind], since=job.stopped_at, facts=facts | order_facts(order), words=text | order_words(order, now)
    )


def _blocked_too_long(job: Job, reason: str) -> Explanation:
    return explanation(
        Code.BLOCKED_TOO_LONG,
        since=job.stopped_at,
        facts={"jobQueue": job.spec.queue, "reason": reason},
        words={"queue": job.spec.queue, "reason": words.short(reason)},
    )


def _child_failed(job: Job, neighbours: RelatedJobs, reader: Reader, now: datetime) -> Explanation:
    counts = dict(job.array_state.counts) if job.array_state is not None else {}
    failed, size = counts.get(Status.FAILED, 0), arrays.size(job)
    text = {"failed": words.number(failed), "children": words.counted(size, "child", "children")}
    facts: dict[str, Fact] = {"size": size, "failed": failed, "succeeded": counts.get(Status.SUCCEEDED, 0)}
    child = neighbours.failed_child
    if child is not None and child.child is not None:
        cause = explain_ended(child, RelatedJobs(), reader, now)
        text |= {"index": str(child.child.index), "cause": cause.sentence}
        facts["child"] = {"jobId": child.id, "index": child.child.index, "code": cause.code.value}
    return explanation(Code.CHILD_FAILED, since=job.stopped_at, facts=facts, words=text)


def _dependency_failed(job: Job, reason: str, neighbours: RelatedJobs, reader: Reader, now: datetime) -> Explanation:
    """A failed dependency that the reader may see is named with its own reason; others are not."""
    job_id = JobId(reason.rpartition(": ")[2])
    found = neighbours.jobs.get(job_id)
    if found is None or not reader.sees(found):
        named = {"dependency": f"({reader.job(found)})"} if found is not None else {}
        return explanation(Code.DEPENDENCY_FAILED, since=job.stopped_at, facts={}, words=named)
    text = {"dependency": reader.job(found)}
    facts: dict[str, Fact] = {"jobId": found.id, "jobName": found.spec.name}
    if found.status is Status.FAILED:
        cause = explain_ended(found, RelatedJobs(), reader, now)
        text["cause"] = cause.sentence
        facts["code"] = cause.code.value
    return explanation(Code.DEPENDENCY_FAILED, since=job.stopped_at, facts={"dependency": facts}, words=text)


def _attempt_failed(job: Job, attempt: Attempt) -> Explanation:
    """The explanation by the last attempt: its deciding container, if it had several."""
    container = _decisive(attempt)
    reason = _reason_of(attempt, container)
    code = _code_of(attempt, reason)
    facts, text = _attempts(job)
    if attempt.exit_code is not None:
        facts["exitCode"] = attempt.exit_code
        text["outcome"] = words.exit_code(attempt.exit_code)
    if reason:
        facts["reason"] = reason
        text |= {"error": words.short(reason)} | ({} if "outcome" in text else {"outcome": words.quoted(reason)})
    if container is not None:
        facts["container"] = container.key.partition("/")[2]
    spec = job.spec.container if container is None else task_container_of(job, container).spec
    facts |= {"memoryMiB": spec.resources.memory_mib, "image": spec.image}
    text |= {"memory": words.memory_words(spec.resources.memory_mib), "image": spec.image}
    text.setdefault("outcome", "no exit code")
    if attempt.exit_code == _KILLED:
        text["memory_limit"] = text["memory"]
    return explanation(code, since=job.stopped_at, facts=facts, words=text)


def _code_of(attempt: Attempt, reason: str) -> Code:
    if attempt.forbidden:
        return Code.FORBIDDEN
    if reason.startswith(status_reasons.OUT_OF_MEMORY.partition(":")[0]):
        return Code.OUT_OF_MEMORY
    if status_reasons.HOST_TERMINATED in {attempt.status_reason, reason}:
        return Code.HOST_LOST
    if status_reasons.DISAPPEARED in {attempt.status_reason, reason}:
        return Code.CONTAINER_LOST
    if attempt.status_reason == status_reasons.NOT_STARTED:
        return Code.IMAGE_UNAVAILABLE if reason.startswith(_PULL_FAILED) else Code.NOT_STARTED
    return Code.EXIT_CODE


def _decisive(attempt: Attempt) -> AttemptContainer | None:
    """The container that decided the attempt; None for an attempt with one container."""
    return next((container for container in attempt.containers if container.key == attempt.decided_by), None)


def _reason_of(attempt: Attempt, container: AttemptContainer | None) -> str:
    return (None if container is None else container.reason) or attempt.reason or ""


def _attempts(job: Job) -> tuple[dict[str, Fact], dict[str, str]]:
    """Which attempt was the last, of how many. Without words for a job with one attempt."""
    if not job.attempts:
        return {}, {}
    last, most, verdict = job.attempts[-1].number, job.max_attempts, _verdict(job)
    facts: dict[str, Fact] = {"attempt": last, "attempts": most}
    text = {} if most == 1 else {"attempt": str(last), "attempts": str(most)}
    if verdict is not None:
        facts["verdict"] = text["verdict"] = verdict
    return facts, text


def _verdict(job: Job) -> str | None:
    """Why a failed job with attempts left was not retried; None if it has none left."""
    last = job.attempts[-1]
    if job.status is not Status.FAILED or last.number >= job.max_attempts:
        return None
    if last.forbidden:
        return "a refusal is not retried"
    is_rule = evaluate_on_exit(job.spec.retry.evaluate_on_exit, last) is Action.EXIT
    return "a rule of evaluateOnExit ended the job" if is_rule else None
