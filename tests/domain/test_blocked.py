"""A job that is blocked has a reason and a time; its queue may cancel it. aws-batch.md 10.4."""

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.domain.lives import after, apply_events, at, outcome, placed, runnable

NO_ROOM = on.FoundBlocked(reason="no room")


def blocked(of):
    return of.status_reason, of.blocked_at, of.unschedulable


def test_a_head_that_does_not_fit_has_a_reason():
    job = after(runnable(), NO_ROOM, now=at(5))

    assert blocked(job) == ("no room", at(5), False)


def test_the_same_reason_again_keeps_the_time():
    job = after(runnable(), NO_ROOM, now=at(5))

    assert apply_events(job, NO_ROOM, now=at(9)) == (job, ())


def test_another_reason_sets_a_new_time():
    job = after(runnable(), NO_ROOM, now=at(5))

    assert blocked(after(job, on.FoundBlocked(reason="no share"), now=at(9))) == ("no share", at(9), False)


def test_another_text_of_the_same_reason_keeps_the_time():
    job = after(runnable(), on.FoundBlocked(reason="CAPACITY:THIS - vCPUs"), now=at(5))

    later = after(job, on.FoundBlocked(reason="CAPACITY:THIS - memory"), now=at(9))

    assert blocked(later) == ("CAPACITY:THIS - memory", at(5), False)


def test_an_unschedulable_job_is_blocked():
    job = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE), now=at(5))

    assert blocked(job) == (status_reasons.TOO_LARGE, at(5), True)


def test_an_unschedulable_job_found_again_keeps_its_time():
    misfit = on.FoundUnschedulable(reason=status_reasons.TOO_LARGE)
    job = after(runnable(), misfit, now=at(5))

    assert apply_events(job, misfit, now=at(9)) == (job, ())


def test_a_blocked_job_found_unschedulable_for_the_same_reason_keeps_its_time():
    job = after(runnable(), on.FoundBlocked(reason=status_reasons.TOO_LARGE), now=at(5))

    assert blocked(after(job, on.FoundUnschedulable(reason=status_reasons.TOO_LARGE), now=at(9))) == (
        status_reasons.TOO_LARGE,
        at(5),
        True,
    )


def test_the_end_of_an_earlier_attempt_is_not_the_time_of_the_block():
    job = after(runnable(status_reason="no room"), NO_ROOM, now=at(5))

    assert blocked(job) == ("no room", at(5), False)


def test_a_placed_or_schedulable_job_is_not_blocked():
    job = after(runnable(), NO_ROOM)

    assert blocked(after(job, placed())) == (None, None, False)
    assert blocked(after(job, on.FoundSchedulable())) == (None, None, False)


def test_a_job_blocked_too_long_is_cancelled():
    job = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE))

    over = after(job, on.BlockedTooLong(reason="MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"))

    why = "Canceled by JobStateTimeLimit action due to reason: MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
    assert outcome(over) == (Status.FAILED, why, True, False)
    assert (over.attempts, over.blocked_at, over.unschedulable) == ((), None, False)
