"""How a job moves from one status to the next: the one place that writes a status, and only along `EDGES`.

`finish` is the one place that decides what becomes of a job whose attempt is over.

After an attempt has ended: is the job done, and how, or does it try again? Pure.

When a container began and ended, by our clock. The engine's is another, which may be set while containers run.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.events import ContainerExited
from batchq.domain.job import FINISHED, Action, Attempt, ExitRule, Job, Part, Status, Stop

Outcome = tuple[Job, tuple[do.Effect, ...]]

Move = tuple[datetime | None, str]

MAX_MOVES = 8  # of a job, in an error or a line of the log

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
    assert job.stop is not None, f"given up, and was not to stop: {with_history(job)}"
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
    assert status in EDGES[job.status], f"no edge to {status} for {with_history(job)}"


def attempt_of(job: Job) -> Attempt:
    assert job.attempt is not None, f"no attempt under way: {with_history(job)}"
    return job.attempt


def with_history(job: Job) -> str:
    """The job in one line for an error or a log: its present state, then its last moves, oldest first."""
    state = f"{job.id}: {job.status}, attempt {_in_short(job.attempt)}, {len(job.attempts)} ended, stop {job.stop}"
    return f"{state}; history: {', '.join(recent_moves(job))}"


def recent_moves(job: Job) -> tuple[str, ...]:
    """The last MAX_MOVES moves of the job, oldest first, each with its time. Known from the job alone."""
    attempts = job.attempts if job.attempt is None else (*job.attempts, job.attempt)
    known = [
        (job.created_at, "submitted"),
        *(move for attempt in attempts for move in _moves_of(attempt)),
        (job.blocked_at, f"blocked ({job.status_reason})"),
        *(() if job.stop is None else _moves_of_stop(job.stop)),
        (job.stopped_at if job.status in FINISHED else None, f"{job.status} ({job.status_reason})"),
    ]
    moves = sorted(((at, move) for at, move in known if at is not None), key=_time_of)
    return tuple(f"{at.isoformat(timespec='milliseconds')} {move}" for at, move in moves[-MAX_MOVES:])


def _time_of(move: tuple[datetime, str]) -> float:
    """Also where a damaged record has a time without a time zone."""
    return move[0].timestamp()


def _moves_of(attempt: Attempt) -> Iterator[Move]:
    name = f"attempt {attempt.number}"
    yield attempt.placed_at, f"{name} placed on {attempt.environment}"
    timed: tuple[Attempt | Part, ...] = (attempt, *attempt.parts)
    for it in timed:
        whole = name if isinstance(it, Attempt) else f"{name} container {it.key}"
        yield it.started_at, f"{whole} started"
        yield it.stopped_at, f"{whole} ended (exit code {it.exit_code}, {it.reason})"


def _moves_of_stop(stop: Stop) -> Iterator[Move]:
    yield stop.ordered_at, f"stop ordered ({stop.cause}, {stop.reason})"
    yield stop.killed_at, "first kill"


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
