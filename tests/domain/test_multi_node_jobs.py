"""Multi-node jobs: nodes that are placed together, and end with the main one. aws-batch.md 5.6, 9."""

from datetime import timedelta

import pytest

from batchq.domain.enums import Status
from batchq.domain.lifecycle.deadlines import next_wakeup
from tests.domain.lives import after, apply_events, at, force_fail, outcome, runnable
from tests.domain.lives import terminate as whole
from tests.domain.part_lives import (
    app,
    described,
    effects_of,
    ends,
    is_abandoned,
    is_signalled,
    multi_node_job,
    part,
    runs,
    sidecar,
    starts_too_late,
    states,
)
from tests.support.builders import gang, task, task_container

ALL_RUN = (runs("0/app"), runs("1/app"), runs("2/app"))


def node(number, reason="enough", grace=None):
    """A terminate of one node."""
    event = whole(reason, grace=grace)
    return type(event)(reason=reason, grace=grace, node=number)


# --------------------------------------------------------------------------------------------------------------- starts


def test_other_nodes_wait_for_the_address_of_the_main_node():
    leader = task(sidecar(), app(after={"sidecar": "SUCCESS"}))
    job = multi_node_job(gang(2, leader=leader))

    assert effects_of(job, runs("0/sidecar", address=None)) == []
    assert effects_of(job, runs("0/sidecar", address="10.0.0.2")) == ["start 1/app"]
    assert effects_of(job, ends("0/sidecar"), runs("0/app", address="10.0.0.2")) == ["start 1/app"]
    assert effects_of(job, runs("0/sidecar", address="10.0.0.2"), ends("0/sidecar")) == ["start 0/app"]


def test_a_later_address_is_stored():
    job = after(multi_node_job(), runs("0/app", address=None), runs("0/app", address="10.0.0.2"))

    assert part(job, "0/app").address == "10.0.0.2"
    assert apply_events(job, runs("0/app", address=None)) == (job, ())


# ----------------------------------------------------------------------------------------------------------------- ends


def test_the_end_of_its_essential_container_stops_another_node():
    job = multi_node_job(gang(2, each=task(app(), sidecar())))

    running = after(job, runs("0/app"), runs("0/sidecar"), runs("1/app"), runs("1/sidecar"))

    assert effects_of(running, ends("1/app", 1)) == ["stop 1/sidecar", "clear 1/app"]


def test_a_start_timeout_in_another_node_stops_that_node_only():
    slow = task_container("init", essential=False, start_timeout=timedelta(seconds=5))
    job = multi_node_job(gang(3, leader=task(app()), each=task(slow, app(after={"init": "SUCCESS"}))))
    job = after(job, runs("0/app"), runs("1/init"), runs("2/init"))

    later = after(job, starts_too_late("1/init"))

    assert effects_of(job, starts_too_late("1/init")) == ["stop 1/init"]
    assert (later.attempt.decided_by, states(later)["1/app"], states(later)["2/app"]) == (None, "ENDED", "WAITING")


# --------------------------------------------------------------------------------------------------------- stop, cancel


def test_a_terminated_node_that_has_not_started_never_starts():
    job = after(multi_node_job(), node(1, "not you"))

    assert (states(job)["1/app"], part(job, "1/app").terminated_by.reason) == ("ENDED", "not you")
    assert effects_of(job, runs("0/app")) == ["start 2/app"]


def test_a_terminated_starting_node_is_abandoned():
    job = after(multi_node_job(), runs("0/app"))

    assert effects_of(job, node(1)) == ["abandon 1/app"]
    assert after(job, node(1), is_abandoned("1/app")).status is Status.RUNNING


def test_a_terminate_of_a_node_may_have_its_own_grace_period():
    job = after(multi_node_job(), *ALL_RUN, node(1, grace=timedelta(seconds=3)), is_signalled("1/app"))

    assert next_wakeup(job) == at(3)


@pytest.mark.parametrize(
    ("before", "requested"),
    [
        ((), node(7)),
        ((node(1, "first"),), node(1, "second")),
        ((whole("enough"),), node(1, "more")),
        ((whole("enough"),), whole("more")),
    ],
    ids=["an unknown node", "a stopping node", "a node of a stopping job", "a stopping job"],
)
def test_a_terminate_that_changes_nothing(before, requested):
    job = after(multi_node_job(), *ALL_RUN, *before)

    assert apply_events(job, requested, now=at(5)) == (job, ())


def test_a_terminate_of_the_job_does_not_change_the_stop_of_a_node_that_is_under_way():
    job = after(multi_node_job(), *ALL_RUN, node(1, grace=timedelta(seconds=3)), is_signalled("1/app"))

    later = after(job, whole(grace=timedelta(minutes=9)))

    assert later.attempt.containers[1] == job.attempt.containers[1]


def test_a_terminate_of_any_node_ends_a_queued_job():
    over = after(runnable(nodes=gang()), node(2, "enough"))

    assert outcome(over) == (Status.FAILED, "enough", False, True)


def test_a_force_fail_cleans_up_all_containers_whose_start_was_requested():
    over, effects = apply_events(after(multi_node_job(), runs("0/app")), force_fail())

    assert over.status is Status.FAILED
    assert {described(effect) for effect in effects} == {"clear 0/app", "clear 1/app", "clear 2/app"}
