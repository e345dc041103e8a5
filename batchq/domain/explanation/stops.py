"""The explanations of stop orders: who ordered a stop, when, why, and what was sent. Pure."""

from datetime import datetime, timedelta

from batchq.domain.explanation import words
from batchq.domain.explanation.codes import Code, Explanation, Fact
from batchq.domain.explanation.words import explanation
from batchq.domain.job import AttemptContainer, AttemptContainerState, Job, Status
from batchq.domain.lifecycle.ladder import under_way
from batchq.domain.lifecycle.stop_order import UNKILLABLE_AFTER
from batchq.domain.stop_orders import StopKind, StopOrder

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
        words_of_limit = text | limit_words(job)
        return explanation(
            Code.TIME_LIMIT, since=order.ordered_at, facts=facts | limit_facts(job), words=words_of_limit
        )
    code = Code.ABANDONING_START if job.status is Status.STARTING else Code.STOPPING
    return explanation(code, since=order.ordered_at, facts=facts, words=text)


def limit_words(job: Job) -> dict[str, str]:
    """The word `limit`, the time limit of an attempt; none without a limit."""
    return {} if job.spec.timeout is None else {"limit": words.duration_words(job.spec.timeout)}


def limit_facts(job: Job) -> dict[str, Fact]:
    """The fact `timeLimitSeconds`; none without a limit."""
    return {} if job.spec.timeout is None else {"timeLimitSeconds": job.spec.timeout / timedelta(seconds=1)}


def _progress(job: Job, order: StopOrder, now: datetime) -> dict[str, str]:
    """The word `killed`, or `signal`, `signalled`, `next` and `left`; none before a signal is delivered."""
    if order.killed_at is not None:
        return {"killed": words.duration_words(now - order.killed_at)}
    stopped: list[StopOrder | AttemptContainer] = [order, *_not_ended(job)]
    signalled = [it for it in stopped if it.next_step_at is not None]
    first = min(signalled, key=lambda it: it.next_step_at or now, default=None)
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
    return [it for it in containers if it.state is not AttemptContainerState.ENDED]
