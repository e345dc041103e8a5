"""The grace period starts with the signal; after it the container is killed until it has exited."""

from datetime import timedelta

import pytest

from batchq.domain import effects as do
from batchq.domain import status_reasons
from batchq.domain.job import Status
from batchq.domain.lifecycle.deadlines import next_wakeup
from tests.domain.lives import (
    after,
    asked,
    at,
    due_event,
    exited,
    grace_over,
    lived,
    marks,
    running,
    started,
    starting,
    terminate,
)


def test_the_grace_period_starts_with_the_signal_and_not_with_the_order():
    job = after(running(stop_grace=timedelta(seconds=30)), terminate(), now=at(0))

    later = after(job, asked(), now=at(40))

    assert next_wakeup(job) is None
    assert next_wakeup(later) == at(70)


def test_a_second_signal_does_not_restart_the_grace_period():
    job = after(running(), terminate(), asked(), now=at(0))

    assert lived(job, asked(), now=at(10)) == (job, ())


def test_a_terminate_may_have_its_own_grace_period():
    job = after(running(stop_grace=timedelta(seconds=30)), terminate(grace=timedelta(seconds=2)), asked())

    assert next_wakeup(job) == at(2)


def test_a_grace_period_of_zero_kills_after_the_signal():
    job = after(running(stop_grace=timedelta(seconds=30)), terminate(grace=timedelta(0)), asked())

    assert due_event(job, at(0)) == grace_over()


def test_a_terminate_while_starting_keeps_its_own_grace_period():
    job = after(starting(), terminate(grace=timedelta(seconds=2)), started(), asked())

    assert next_wakeup(job) == at(2)


def test_a_signal_without_an_order_starts_no_grace_period():
    job = running()

    assert lived(job, asked()) == (job, ())


def test_the_container_is_killed_after_the_grace_period():
    job = after(running(), terminate("enough"), asked())

    later, effects = lived(job, due_event(job, at(30)), now=at(30))

    assert due_event(job, at(29.999)) is None
    assert marks(later) == (Status.RUNNING, "enough", False, True)
    assert effects == (do.KillContainer(tag=job.tag),)


def test_the_kill_is_repeated_every_five_seconds():
    job = after(running(), terminate(), asked())

    killed = after(job, grace_over(), now=at(30))
    killed_again, effects = lived(killed, grace_over(), now=at(35))

    assert (next_wakeup(killed), next_wakeup(killed_again)) == (at(35), at(40))
    assert effects == (do.KillContainer(tag=job.tag),)


def test_a_grace_period_that_has_not_started_does_not_kill():
    job = after(running(), terminate())

    assert lived(job, grace_over(), now=at(99)) == (job, ())


@pytest.mark.fault("SP24")
def test_a_container_that_survives_the_kill_for_a_minute_is_reported():
    job = after(running(), terminate("enough"), asked())
    killed = after(job, grace_over(), now=at(30))

    just_before = after(killed, grace_over(), now=at(89.999))
    deaf, effects = lived(just_before, grace_over(), now=at(90))

    assert just_before.status_reason == "enough"
    assert marks(deaf) == (Status.RUNNING, status_reasons.UNKILLABLE, False, True)
    assert effects == (do.KillContainer(tag=job.tag),)


def test_a_container_that_exits_late_leaves_the_callers_reason():
    job = after(running(), terminate("enough"), asked())
    deaf = after(after(job, grace_over(), now=at(30)), grace_over(), now=at(90))

    over = after(deaf, exited(137), now=at(91))

    assert marks(over) == (Status.FAILED, "enough", False, True)
