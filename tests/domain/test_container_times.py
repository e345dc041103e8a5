"""The engine's clock is set while containers run: no timeout is early, and no duration is negative."""

from datetime import timedelta

import pytest

from batchq.domain.job import Status
from batchq.domain.lifecycle.deadlines import next_wakeup
from tests.domain.lives import after, apply_events, at, exited, placed, runnable, started
from tests.domain.part_lives import ends, part, runs, task_job
from tests.support.builders import NOON

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
EACH_WAY = pytest.mark.parametrize("started_at", [at(5) - HOUR, at(5) + HOUR], ids=["set back", "set ahead"])

pytestmark = pytest.mark.fault("TM01")


def placed_at_noon(**fields):
    return after(runnable(**fields), placed())


@EACH_WAY
def test_a_timeout_counts_from_a_possible_start(started_at):
    job = after(placed_at_noon(timeout=MINUTE), started(at=started_at), now=at(10))

    assert NOON + MINUTE <= next_wakeup(job) <= at(10) + MINUTE


@EACH_WAY
def test_the_timeout_of_a_task_counts_from_a_possible_start(started_at):
    job = after(task_job(timeout=MINUTE), runs("0/app", since=started_at), now=at(10))

    assert NOON + MINUTE <= next_wakeup(job) <= at(10) + MINUTE


def test_an_attempt_that_started_before_its_placement_keeps_its_duration():
    result = exited(0, started_at=at(5) - HOUR, stopped_at=at(12) - HOUR)

    done = after(placed_at_noon(), result, now=at(20))

    assert (done.status, done.started_at, done.stopped_at) == (Status.SUCCEEDED, NOON, at(7))
    assert (done.attempts[0].started_at, done.attempts[0].stopped_at) == (NOON, at(7))


def test_a_container_of_a_task_keeps_its_duration():
    result = ends("0/app", started_at=at(5) - HOUR, stopped_at=at(12) - HOUR)

    done = after(task_job(), result, now=at(20))

    assert (part(done, "0/app").started_at, part(done, "0/app").stopped_at) == (NOON, at(7))


def test_a_clock_set_back_gives_no_negative_duration():
    running = after(placed_at_noon(), started(at=at(1)), now=at(1))

    done, _ = apply_events(running, exited(1, started_at=at(1), stopped_at=at(9) - HOUR), now=at(9))

    assert (done.started_at, done.stopped_at) == (at(1), at(1))


def test_plausible_times_of_the_engine_are_unchanged():
    done = after(placed_at_noon(), exited(0, started_at=at(2), stopped_at=at(4)), now=at(5))

    assert (done.started_at, done.stopped_at) == (at(2), at(4))


def test_with_a_clock_behind_the_stored_times_nothing_starts_in_the_future():
    """Between two servers the machine's clock was set back by an hour."""
    early = NOON - HOUR

    job = after(placed_at_noon(timeout=MINUTE), started(at=early), now=early)
    done = after(job, exited(0, started_at=early, stopped_at=early + MINUTE), now=early + MINUTE)

    assert next_wakeup(job) == early + MINUTE
    assert (done.started_at, done.stopped_at) == (early, early + MINUTE)
