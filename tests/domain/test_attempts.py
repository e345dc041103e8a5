"""One attempt after another: placed, started, ended; in a job with one container and in a task."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.lifecycle.deadlines import next_wakeup
from tests.domain.lives import (
    after,
    apply_events,
    at,
    container_created,
    exited,
    force_fail,
    outcome,
    placed,
    runnable,
    running,
    started,
    starting,
    terminate,
)
from tests.domain.part_lives import app, cannot_start, ends, grace_ended, is_lost, is_signalled, runs, sidecar, task_job
from tests.support.builders import NOON

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
EACH = pytest.mark.parametrize(
    ("placed_job", "key"), [(starting, ""), (task_job, "0/app")], ids=["one container", "a task"]
)


@EACH
def test_a_pause_of_a_job_whose_start_is_refused_by_a_policy_fails_the_job(placed_job, key):
    pausing = after(placed_job(), on.PauseRequested(reason="not now"))
    refused = replace(cannot_start(key, forbidden=True), exit_code=None)

    failed = after(pausing, refused)

    assert (failed.status, failed.hold) == (Status.FAILED, None)
    assert (failed.attempts[-1].forbidden, failed.attempts[-1].paused) == (True, False)


def test_a_container_created_again_has_another_id():
    created = after(starting(), container_created(container_id="discarded"), container_created(container_id="new"))

    assert created.attempt.containers[0].container_id == "new"


def test_a_new_attempt_has_no_end_and_no_reason():
    job = after(running(attempts=2), exited(1))

    again = after(after(job, placed()), started(2, at=at(60)), now=at(61))

    assert (again.status_reason, again.started_at, again.stopped_at) == (None, at(60), None)


def test_a_second_report_of_a_start_changes_nothing():
    job = running()

    assert apply_events(job, started(at=at(-5)), now=at(1)) == (job, ())


@EACH
@pytest.mark.parametrize(
    ("code", "status", "reason"), [(137, Status.FAILED, status_reasons.OUT_OF_MEMORY), (0, Status.SUCCEEDED, None)]
)
def test_lack_of_memory_is_the_container_reason_of_a_failure(placed_job, key, code, status, reason):
    over = after(placed_job(), runs(key), ends(key, code, out_of_memory=True))

    assert (over.status, over.status_reason) == (status, status_reasons.EXITED)
    assert (over.attempts[0].exit_code, over.attempts[0].reason) == (code, reason)


@EACH
@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [(255, Status.FAILED, status_reasons.HOST_TERMINATED), (0, Status.SUCCEEDED, status_reasons.EXITED)],
)
def test_a_lost_host_is_the_status_reason_of_a_failure(placed_job, key, code, status, reason):
    over = after(placed_job(), ends(key, code, host_lost=True))

    assert (over.status, over.status_reason) == (status, reason)


def test_of_several_containers_the_deciding_one_has_the_reason():
    job = after(task_job(app(), sidecar()), runs("0/app"), runs("0/sidecar"))
    decider_lost = after(job, ends("0/app", 137, host_lost=True), ends("0/sidecar", 137))
    other_lost = after(job, ends("0/app", 1), ends("0/sidecar", 137, host_lost=True))

    assert decider_lost.status_reason == status_reasons.HOST_TERMINATED
    assert other_lost.status_reason == status_reasons.EXITED


# --------------------------------------------------------------------------------------------------------------- times


def times(over):
    """The start and end of the job, of its last attempt and of the attempt's containers: one pair if all agree."""
    last = over.attempts[-1]
    return {(container.started_at, container.stopped_at) for container in (over, last, *last.containers)}


@pytest.mark.fault("TM01")
@EACH
@pytest.mark.parametrize("reported", [at(5) - HOUR, at(5) + HOUR], ids=["set back", "set ahead"])
def test_a_timeout_counts_from_a_possible_start(placed_job, key, reported):
    job = after(placed_job(timeout=MINUTE), runs(key, since=reported), now=at(10))

    assert NOON + MINUTE <= next_wakeup(job) <= at(10) + MINUTE


@EACH
def test_a_start_reported_in_the_future_is_now(placed_job, key):
    job = after(placed_job(), runs(key, since=at(100)), now=at(1))

    assert job.started_at == job.attempt.started_at == at(1)


@pytest.mark.fault("TM01")
@EACH
@pytest.mark.parametrize(
    ("reported", "stored"),
    [
        ((at(2), at(4)), (at(2), at(4))),
        ((at(9), at(3)), (at(9), at(9))),
        ((at(5) - HOUR, at(12) - HOUR), (NOON, at(7))),
    ],
    ids=["plausible", "an end before the start", "a start before the placement"],
)
def test_the_engines_times_are_moved_to_possible_ones(placed_job, key, reported, stored):
    over = after(placed_job(), ends(key, started_at=reported[0], stopped_at=reported[1]), now=at(20))

    assert times(over) == {stored}


@pytest.mark.fault("TM01")
@EACH
def test_a_clock_set_back_gives_no_negative_duration(placed_job, key):
    job = after(placed_job(), runs(key, since=at(1)), now=at(1))

    assert times(after(job, ends(key, 1, started_at=at(1), stopped_at=at(9) - HOUR), now=at(9))) == {(at(1), at(1))}


@pytest.mark.fault("TM01")
@EACH
def test_with_a_clock_behind_the_stored_times_nothing_starts_in_the_future(placed_job, key):
    """Between two servers the machine's clock was set back by an hour."""
    early = NOON - HOUR

    job = after(placed_job(timeout=MINUTE), runs(key, since=early), now=early)
    over = after(job, ends(key, started_at=early, stopped_at=early + MINUTE), now=early + MINUTE)

    assert next_wakeup(job) == early + MINUTE
    assert times(over) == {(early, early + MINUTE)}


@EACH
def test_a_lost_attempt_has_the_given_reason_and_does_not_end_before_its_start(placed_job, key):
    job = after(placed_job(), runs(key))

    over = after(job, replace(is_lost(key), reason="Container state lost"), now=at(-3600))

    assert over.status_reason == "Container state lost"
    assert times(over) == {(NOON, NOON)}


def test_a_force_failed_attempt_does_not_end_before_its_start():
    assert times(after(running(), force_fail(), now=at(-5))) == {(NOON, NOON)}


# --------------------------------------------------------------------------------------------------- stopping, blocked


@pytest.mark.fault("SP24")
@EACH
def test_a_container_that_survives_the_kill_for_a_minute_is_reported(placed_job, key):
    job = after(placed_job(), runs(key), terminate("enough"), is_signalled(key))
    killed = after(job, grace_ended(key), now=at(30))

    just_before = after(killed, grace_ended(key), now=at(89.999))
    hanging, effects = apply_events(just_before, grace_ended(key), now=at(90))

    assert just_before.status_reason == "enough"
    assert outcome(hanging) == (Status.RUNNING, status_reasons.UNKILLABLE, False, True)
    assert effects == (do.KillContainer(tag=replace(job.tag, container_key=key)),)
    assert after(hanging, ends(key, 137)).status_reason == "enough"


NO_ROOM, NO_SHARE = on.FoundBlocked(reason="no room"), on.FoundBlocked(reason="no share")
TOO_LARGE = on.FoundUnschedulable(reason=status_reasons.TOO_LARGE)


def blocked(of):
    return of.status_reason, of.blocked_at, of.unschedulable


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (NO_ROOM, NO_SHARE, ("no share", at(9), False)),
        (TOO_LARGE, on.FoundSchedulable(), (None, None, False)),
        (NO_ROOM, on.FoundSchedulable(), (None, None, False)),
        (NO_ROOM, placed(), (None, None, False)),
        (on.FoundBlocked(reason=TOO_LARGE.reason), TOO_LARGE, (TOO_LARGE.reason, at(5), True)),
        (
            on.FoundBlocked(reason="CAPACITY:THIS - vCPUs"),
            on.FoundBlocked(reason="CAPACITY:THIS - memory"),
            ("CAPACITY:THIS - memory", at(5), False),
        ),
    ],
)
def test_a_blocked_job_shows_its_reason_since_the_code_of_the_reason_changed(first, second, shown):
    job = after(runnable(status_reason="no room"), first, now=at(5))  # the reason of an earlier attempt has no time

    assert blocked(job) == (first.reason, at(5), first is TOO_LARGE)
    assert apply_events(job, first, now=at(9)) == (job, ())
    assert blocked(after(job, second, now=at(9))) == shown


def test_a_job_blocked_too_long_is_cancelled():
    over = after(runnable(), TOO_LARGE, on.BlockedTooLong(reason="MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"))

    why = "Canceled by JobStateTimeLimit action due to reason: MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
    assert outcome(over) == (Status.FAILED, why, True, False)
    assert (over.attempts, over.blocked_at, over.unschedulable) == ((), None, False)
