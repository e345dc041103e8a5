"""Multi-node jobs: nodes that are placed together, and end with the main one. aws-batch.md 5.6, 9."""

from datetime import timedelta

from batchq.domain import status_reasons
from batchq.domain.job import Status
from batchq.domain.lifecycle.deadlines import next_wakeup
from tests.domain.lives import after, at, cancel, lived, marks, placed, runnable
from tests.domain.lives import terminate as whole
from tests.domain.part_lives import (
    app,
    asks,
    ended_at,
    ends,
    ganged,
    given_up,
    in_words,
    is_asked,
    never_starts,
    part,
    parts,
    runs,
    sidecar,
    states,
    too_late,
)
from tests.support.builders import gang, task, task_container

ALL_RUN = (runs("0/app"), runs("1/app"), runs("2/app"))


def node(number, reason="enough", grace=None):
    """A terminate of one node."""
    event = whole(reason, grace=grace)
    return type(event)(reason=reason, grace=grace, node=number)


# --------------------------------------------------------------------------------------------------------------- starts


def test_the_main_node_starts_first():
    job, effects = lived(runnable(nodes=gang(3, main=1)), placed())

    assert [in_words(it) for it in effects] == ["start 1/app"]
    assert [*states(job).items()] == [("1/app", "STARTING"), ("0/app", "WAITING"), ("2/app", "WAITING")]


def test_other_nodes_start_after_the_main_node():
    job = ganged()

    assert asks(job, runs("0/app", address="10.0.0.2")) == ["start 1/app", "start 2/app"]
    assert part(after(job, runs("0/app", address="10.0.0.2")), "0/app").address == "10.0.0.2"


def test_other_nodes_wait_for_the_address_of_the_main_node():
    leader = task(sidecar(), app(after={"sidecar": "SUCCESS"}))
    job = ganged(gang(2, leader=leader))

    assert asks(job, runs("0/sidecar", address=None)) == []
    assert asks(job, ends("0/sidecar"), runs("0/app", address="10.0.0.2")) == ["start 1/app"]
    assert asks(job, runs("0/sidecar", address="10.0.0.2"), ends("0/sidecar")) == ["start 0/app"]


def test_a_later_address_is_stored():
    job = after(ganged(), runs("0/app", address=None), runs("0/app", address="10.0.0.2"))

    assert part(job, "0/app").address == "10.0.0.2"
    assert lived(job, runs("0/app", address=None)) == (job, ())


def test_a_repeated_start_event_starts_nothing():
    assert asks(ganged(), runs("0/app"), runs("0/app")) == []


def test_containers_wait_for_containers_of_their_own_node():
    leader = task(app(), sidecar(after={"app": "START"}))
    job = ganged(gang(2, each=task(app(), sidecar(after={"app": "START"})), leader=leader))

    assert asks(job, runs("0/app")) == ["start 0/sidecar", "start 1/app"]
    assert asks(job, runs("0/app"), runs("1/app")) == ["start 1/sidecar"]


def test_a_multi_node_job_may_have_one_node():
    assert after(ganged(gang(1)), runs("0/app"), ends("0/app")).status is Status.SUCCEEDED


# ----------------------------------------------------------------------------------------------------------------- ends


def test_the_end_of_the_main_node_stops_the_others():
    assert asks(ganged(), *ALL_RUN, ends("0/app")) == ["stop 1/app", "stop 2/app", "clear 0/app"]


def test_the_main_node_decides_status_exit_code_and_times():
    job = after(ganged(), *ALL_RUN, ends("1/app", 3, **ended_at(2)), ends("0/app", 0, **ended_at(5)))

    over = after(job, ends("2/app", 143, **ended_at(9)), now=at(9))

    assert job.status is Status.RUNNING
    assert (over.status, over.attempts[0].decided_by, over.attempts[0].exit_code) == (Status.SUCCEEDED, "0/app", 0)
    assert (over.started_at, over.stopped_at) == (at(0), at(5))
    assert [it.exit_code for it in parts(over)] == [0, 3, 143]


def test_the_failure_of_another_node_affects_no_other():
    job = after(ganged(), *ALL_RUN)

    assert asks(job, ends("1/app", 1)) == ["clear 1/app"]
    assert after(job, ends("1/app", 1)).status is Status.RUNNING


def test_another_node_that_cannot_start_affects_no_other():
    job = after(ganged(), runs("0/app"), never_starts("1/app"), runs("2/app"))

    assert states(job) == {"0/app": "RUNNING", "1/app": "ENDED", "2/app": "RUNNING"}


def test_the_end_of_its_essential_container_stops_another_node():
    job = ganged(gang(2, each=task(app(), sidecar())))

    running = after(job, runs("0/app"), runs("0/sidecar"), runs("1/app"), runs("1/sidecar"))

    assert asks(running, ends("1/app", 1)) == ["stop 1/sidecar", "clear 1/app"]


def test_a_start_timeout_in_another_node_stops_that_node_only():
    slow = task_container("init", essential=False, start_timeout=timedelta(seconds=5))
    job = ganged(gang(3, leader=task(app()), each=task(slow, app(after={"init": "SUCCESS"}))))
    job = after(job, runs("0/app"), runs("1/init"), runs("2/init"))

    later = after(job, too_late("1/init"))

    assert asks(job, too_late("1/init")) == ["stop 1/init"]
    assert (later.attempt.decided_by, states(later)["1/app"], states(later)["2/app"]) == (None, "ENDED", "WAITING")


def test_a_main_node_that_cannot_start_ends_the_job_before_others_start():
    over = after(ganged(), never_starts("0/app"))

    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.NOT_STARTED)
    assert {it.start_requested_at for it in parts(over) if it.key != "0/app"} == {None}


def test_a_failed_main_node_retries_all_nodes():
    job = after(ganged(attempts=2), *ALL_RUN, ends("0/app", 1), ends("1/app", 0), ends("2/app", 143))

    assert job.status is Status.RUNNABLE
    assert states(after(job, placed())) == {"0/app": "STARTING", "1/app": "WAITING", "2/app": "WAITING"}


# --------------------------------------------------------------------------------------------------------- stop, cancel


def test_a_terminate_of_the_main_node_stops_the_job():
    job = after(ganged(), *ALL_RUN)

    assert asks(job, node(0)) == ["stop 0/app", "stop 1/app", "stop 2/app"]
    assert after(job, node(0)) == after(job, whole())
    assert {it.terminated_by for it in parts(after(job, whole()))} == {None}


def test_a_terminate_of_another_node_stops_it_alone():
    job = after(ganged(), *ALL_RUN)

    later = after(job, node(1, "not you"), ends("1/app", 143))

    assert asks(job, node(1)) == ["stop 1/app"]
    assert (later.status, later.stop, later.status_reason) == (Status.RUNNING, None, None)
    assert (part(later, "1/app").exit_code, part(later, "1/app").terminated_by.reason) == (143, "not you")
    assert after(later, ends("2/app"), ends("0/app")).status is Status.SUCCEEDED


def test_a_terminated_node_that_has_not_started_never_starts():
    job = after(ganged(), node(1, "not you"))

    assert (states(job)["1/app"], part(job, "1/app").terminated_by.reason) == ("ENDED", "not you")
    assert asks(job, runs("0/app")) == ["start 2/app"]


def test_a_terminated_starting_node_is_abandoned():
    job = after(ganged(), runs("0/app"))

    assert asks(job, node(1)) == ["abandon 1/app"]
    assert after(job, node(1), given_up("1/app")).status is Status.RUNNING


def test_a_terminate_of_a_node_may_have_its_own_grace_period():
    job = after(ganged(), *ALL_RUN, node(1, grace=timedelta(seconds=3)), is_asked("1/app"))

    assert next_wakeup(job) == at(3)


def test_a_terminate_of_an_unknown_node_changes_nothing():
    job = after(ganged(), *ALL_RUN)

    assert lived(job, node(7)) == (job, ())


def test_a_later_terminate_does_not_change_a_stopping_node():
    job = after(ganged(), *ALL_RUN, node(1, "first"))

    assert lived(job, node(1, "second"), now=at(5)) == (job, ())


def test_a_terminate_of_the_job_stops_the_other_nodes():
    assert asks(ganged(), *ALL_RUN, node(1), whole()) == ["stop 0/app", "stop 2/app"]


def test_a_terminate_of_a_node_after_that_of_the_job_changes_nothing():
    job = after(ganged(), *ALL_RUN, whole("enough"))

    assert lived(job, node(1, "more")) == (job, ())


def test_a_terminate_of_any_node_ends_a_queued_job():
    over = after(runnable(nodes=gang()), node(2, "enough"))

    assert marks(over) == (Status.FAILED, "enough", False, True)


def test_a_cancel_of_a_node_cancels_the_job():
    event = cancel("not wanted")
    job = after(ganged(), *ALL_RUN, type(event)(reason="not wanted", node=2))

    assert job.cancel.reason == "not wanted"
