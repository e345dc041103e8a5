"""The recent history of a job in errors and log lines."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.job import Attempt, Job, Status
from batchq.domain.lifecycle.status import MAX_MOVES, recent_moves, with_history
from batchq.domain.lifecycle.transitions import step
from batchq.domain.stop_orders import StopKind, StopOrder
from batchq.errors import IllegalTransition
from tests.support.builders import NOON, job_id, spec

SECOND = timedelta(seconds=1)


def ended(number):
    begun = NOON + 10 * number * SECOND
    return Attempt(
        number=number,
        environment="local",
        placed_at=begun,
        started_at=begun + SECOND,
        stopped_at=begun + 2 * SECOND,
        exit_code=number,
    )


def retried(*attempts, **changes):
    job = Job(id=job_id(1), order=1, spec=spec(), created_at=NOON, status=Status.RUNNABLE, attempts=attempts)
    return replace(job, **changes)


def test_moves_are_listed_oldest_first_with_their_times():
    assert recent_moves(retried(ended(1))) == (
        "2026-11-21T12:00:00.000+00:00 submitted",
        "2026-11-21T12:00:10.000+00:00 attempt 1 placed on local",
        "2026-11-21T12:00:11.000+00:00 attempt 1 started",
        "2026-11-21T12:00:12.000+00:00 attempt 1 ended (exit code 1, None)",
    )


def test_only_the_last_moves_of_a_long_history_are_shown():
    moves = recent_moves(retried(*map(ended, range(1, 11))))

    assert len(moves) == MAX_MOVES
    assert "attempt 8 started" in moves[0]
    assert "attempt 10 ended (exit code 10, None)" in moves[-1]


def test_a_stop_order_and_the_end_are_moves():
    stop = StopOrder(kind=StopKind.TERMINATE, reason="enough", user="cora", ordered_at=NOON + 5 * SECOND)
    over = retried(
        status=Status.FAILED,
        status_reason="enough",
        stop_orders=(stop,),
        stopped_at=NOON + 6 * SECOND,
        blocked_at=NOON + SECOND,
    )

    assert [it.partition(" ")[2] for it in recent_moves(over)] == [
        "submitted",
        "blocked (enough)",
        "TERMINATE ordered by cora (enough)",
        "FAILED (enough)",
    ]


def test_a_time_without_a_time_zone_in_a_damaged_record_does_not_hide_the_history():
    assert len(recent_moves(retried(ended(1), created_at=NOON.replace(tzinfo=None)))) == 4


def test_an_illegal_transition_shows_the_recent_history():
    job = retried(ended(1))

    with pytest.raises(IllegalTransition) as why:
        step(job, on.DependenciesMet(), NOON + 60 * SECOND)

    assert str(why.value) == f"DependenciesMet cannot happen to {with_history(job)}"
    assert "attempt 1 ended (exit code 1, None)" in str(why.value)
