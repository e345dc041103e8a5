"""How a job moves from one status to the next: the one place that writes a status, and only along `EDGES`.

`finish` is the one place that decides what becomes of a job whose attempt is over.

After an attempt has ended: is the job done, and how, or does it try again? Pure.

When a container began and ended, by our clock. The engine's is another, which may be set while containers run.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.events import ContainerExited
from batchq.domain.job import Action, Attempt, ExitRule, Job, Status

Outcome = tuple[Job, tuple[do.Effect, ...]]

EDGES: Mapping[Status, frozenset[Status]] = {
    Status.SUBMITTED: frozenset({Status.PENDING, Status.RUNNABLE, Status.FAILED}),
    Status.PENDING: frozenset({Status.RUNNABLE, Status.SUCCEEDED, Status.FAILED}),  # an array parent is never more
    Status.RUNNABLE: frozenset({Status.STARTING, Status.FAILED}),
    Status.STARTING: frozenset({Status.RUNNING, Status.RUNNABLE, Status.FAILED}),
    Status.RUNNING: frozenset({Status.SUCCEEDED, Status.RUNNABLE, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
}


def finish(job: Job, ended: Attempt, now: datetime, status_reason: str) -> Job:
    """An attempt is over, for this reason unless it was ordered to stop: what becomes of its job."""
    ended = replace(ended, status_reason=status_reason if job.stop is None else job.stop.reason)
    over = replace(job, attempts=(*job.attempts, ended), started_at=ended.started_at, stopped_at=ended.stopped_at)
    match verdict(job, ended):
        case Verdict.SUCCEED:
            return end(replace(over, cancelled=None), Status.SUCCEEDED, now, status_reason)
        case Verdict.FAIL:
            return end(*_blame(over, ended, now))
        case Verdict.AGAIN:
            return replace(to(over, Status.RUNNABLE), attempt=None, stopped_at=None, status_reason=status_reason)


def abandon(job: Job, now: datetime) -> Job:
    """It was ordered to stop, and nothing of it ran, so no attempt was used."""
    assert job.stop is not None, f"given up, and was not to stop: {story(job)}"
    return end(replace(job, cancelled=None), Status.FAILED, now, job.stop.reason)


def _blame(job: Job, ended: Attempt, now: datetime) -> tuple[Job, Status, datetime, str | None]:
    """Whose reason the end of a failed job carries: the stop order's, the remembered cancel's, the attempt's own."""
    if job.stop is not None:
        return replace(job, cancelled=None), Status.FAILED, now, job.stop.reason
    return job, Status.FAILED, now, job.cancelled if job.cancelled is not None else ended.status_reason


def end(job: Job, status: Status, now: datetime, reason: str | None) -> Job:
    _check_edge(job, status)
    stopped = job.stopped_at or max(now, job.started_at or now)
    return replace(
        job,
        status=status,
        attempt=None,
        misfit=False,
        blocked_at=None,
        promised_start=None,
        status_reason=reason,
        stopped_at=stopped,
    )


def to(job: Job, status: Status) -> Job:
    _check_edge(job, status)
    return replace(job, status=status)


def _check_edge(job: Job, status: Status) -> None:
    assert status in EDGES[job.status], f"no edge to {status} for {story(job)}"


def attempt_of(job: Job) -> Attempt:
    assert job.attempt is not None, f"no attempt under way: {story(job)}"
    return job.attempt


def story(job: Job) -> str:
    """The job in a line, for whoever must understand how it came here."""
    return f"{job.id}: {job.status}, attempt {_in_short(job.attempt)}, {len(job.attempts)} ended, stop {job.stop}"


def _in_short(attempt: Attempt | None) -> str:
    if attempt is None or not attempt.parts:
        return str(attempt)
    return f"{attempt.number} ({', '.join(f'{it.key} {it.state}' for it in attempt.parts)})"


class Verdict(StrEnum):
    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    AGAIN = "AGAIN"


def verdict(job: Job, ended: Attempt) -> Verdict:
    """The order of these questions is the contract: a stop order beats all, an exit 0 beats a remembered cancel."""
    if job.stop is not None:
        return Verdict.FAIL
    if ended.exit_code == 0:
        return Verdict.SUCCEED
    if job.cancelled is not None or ended.forbidden or ended.number >= job.spec.retry.attempts:
        return Verdict.FAIL
    return Verdict.AGAIN if evaluate(job.spec.retry.evaluate_on_exit, ended) is Action.RETRY else Verdict.FAIL


def evaluate(rules: tuple[ExitRule, ...], ended: Attempt) -> Action:
    """What the first matching entry says. AWS: when none matches, the job is retried."""
    return next((rule.action for rule in rules if matches(rule, ended)), Action.RETRY)


def matches(rule: ExitRule, ended: Attempt) -> bool:
    """Every condition that is given holds."""
    code = None if ended.exit_code is None else str(ended.exit_code)
    return (
        _like(rule.on_status_reason, ended.status_reason)
        and _like(rule.on_reason, ended.reason)
        and _like(rule.on_exit_code, code)
    )


def _like(pattern: str | None, text: str | None) -> bool:
    """A lone `*` also matches what is missing: AWS's documented catch-all is `onReason: "*"`."""
    if pattern is None or pattern == "*":
        return True
    if text is None:
        return False
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


NOTHING = timedelta()


def began(told: datetime, *, asked: datetime | None, now: datetime) -> datetime:
    """As the engine told, but after its start was asked for and not in the future: timeouts count from it."""
    return min(told + _set_back(told, asked, now), now)


def lasted(told: ContainerExited, *, asked: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """Its beginning and its end: as far apart as the engine told, never less than nothing."""
    set_back = _set_back(told.started_at, asked, now)
    return told.started_at + set_back, max(told.stopped_at, told.started_at) + set_back


def _set_back(told: datetime, asked: datetime | None, now: datetime) -> timedelta:
    """How far the engine's clock is behind, as far as can be known; where our own was set back, it cannot."""
    return NOTHING if asked is None or asked > now else max(asked - told, NOTHING)
