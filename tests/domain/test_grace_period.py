"""The grace period starts with the signal; after it the container is killed until it has exited."""

import pytest

from batchq.domain import effects as do
from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.domain.lives import (
    after,
    apply_events,
    at,
    grace_expired,
    outcome,
    running,
    signal_delivered,
    terminate,
)


@pytest.mark.fault("SP24")
def test_a_container_that_survives_the_kill_for_a_minute_is_reported():
    job = after(running(), terminate("enough"), signal_delivered())
    killed = after(job, grace_expired(), now=at(30))

    just_before = after(killed, grace_expired(), now=at(89.999))
    hanging, effects = apply_events(just_before, grace_expired(), now=at(90))

    assert just_before.status_reason == "enough"
    assert outcome(hanging) == (Status.RUNNING, status_reasons.UNKILLABLE, False, True)
    assert effects == (do.KillContainer(tag=job.tag),)
