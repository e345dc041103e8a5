"""A RUNNABLE job that cannot go on says why, since when, and is given up where its queue says so. aws-batch.md 10.4."""

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.domain.lives import after, at, lived, marks, placed, runnable

NO_ROOM = on.FoundBlocked(reason="no room")


def blocked(of):
    return of.status_reason, of.blocked_at, of.unschedulable


def test_the_head_of_a_queue_that_finds_no_room_says_so():
    job = after(runnable(), NO_ROOM, now=at(5))

    assert blocked(job) == ("no room", at(5), False)


def test_found_blocked_again_for_the_same_reason_it_has_been_since_the_first_time():
    job = after(runnable(), NO_ROOM, now=at(5))

    assert lived(job, NO_ROOM, now=at(9)) == (job, ())


def test_blocked_for_another_reason_it_counts_anew():
    job = after(runnable(), NO_ROOM, now=at(5))

    assert blocked(after(job, on.FoundBlocked(reason="no share"), now=at(9))) == ("no share", at(9), False)


def test_what_is_only_explained_otherwise_has_been_so_since_the_first_time():
    job = after(runnable(), on.FoundBlocked(reason="CAPACITY:THIS - vCPUs"), now=at(5))

    later = after(job, on.FoundBlocked(reason="CAPACITY:THIS - memory"), now=at(9))

    assert blocked(later) == ("CAPACITY:THIS - memory", at(5), False)


def test_a_misfit_is_blocked_too():
    job = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE), now=at(5))

    assert blocked(job) == (status_reasons.TOO_LARGE, at(5), True)


def test_a_misfit_found_again_has_been_one_since_the_first_time():
    misfit = on.FoundUnschedulable(reason=status_reasons.TOO_LARGE)
    job = after(runnable(), misfit, now=at(5))

    assert lived(job, misfit, now=at(9)) == (job, ())


def test_a_blocked_job_that_becomes_a_misfit_for_the_same_reason_keeps_its_time():
    job = after(runnable(), on.FoundBlocked(reason=status_reasons.TOO_LARGE), now=at(5))

    assert blocked(after(job, on.FoundUnschedulable(reason=status_reasons.TOO_LARGE), now=at(9))) == (
        status_reasons.TOO_LARGE,
        at(5),
        True,
    )


def test_what_failed_before_is_not_since_when_it_is_blocked():
    job = after(runnable(status_reason="no room"), NO_ROOM, now=at(5))

    assert blocked(job) == ("no room", at(5), False)


def test_what_is_placed_or_fits_at_last_is_blocked_no_more():
    job = after(runnable(), NO_ROOM)

    assert blocked(after(job, placed())) == (None, None, False)
    assert blocked(after(job, on.FoundSchedulable())) == (None, None, False)


def test_blocked_too_long_it_is_cancelled_for_that():
    job = after(runnable(), on.FoundUnschedulable(reason=status_reasons.TOO_LARGE))

    over = after(job, on.BlockedTooLong(reason="MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"))

    why = "Canceled by JobStateTimeLimit action due to reason: MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
    assert marks(over) == (Status.FAILED, why, True, False)
    assert (over.attempts, over.blocked_at, over.unschedulable) == ((), None, False)
