"""What is saved of a unit of work, and told of it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import stream_name
from batchq.domain.job import Status
from tests.domain.lives import (
    after,
    asked,
    at,
    cancel,
    exited,
    grace_over,
    not_started,
    placed,
    runnable,
    running,
    started,
    starting,
    submitted,
    terminate,
)
from tests.domain.part_lives import app, ends, ganged, given_up, is_asked, runs, sidecar, tasked
from tests.engine.turns import changes, learnt, turn_over
from tests.support.builders import NOON, submission

# --------------------------------------------------------------------------------------------------------------- saving


def test_a_unit_of_work_in_which_nothing_changed_saves_nothing():
    job = running()
    unit = turn_over(job)

    unit.step(job.id, started())

    assert changes(unit).empty
    assert (unit.committed().jobs, unit.committed().transitions) == ((), [])


def test_a_changed_job_is_saved_over_the_version_that_was_read():
    job = replace(runnable(), version=7)
    unit = learnt(job)

    unit.step(job.id, placed())
    unit.step(job.id, started())

    assert [(it.version, it.status) for it in changes(unit).updated] == [(7, Status.RUNNING)]
    assert [(it.version, it.status) for it in unit.committed().jobs] == [(8, Status.RUNNING)]


def test_a_new_job_is_inserted_as_the_unit_of_work_leaves_it():
    job = submitted()
    unit = turn_over()

    unit.insert(job, None)
    unit.step(job.id, on.DependenciesMet())

    assert unit.take_new() == [job.id]
    assert [(it.version, it.status) for it in changes(unit).inserted] == [(0, Status.RUNNABLE)]
    assert changes(unit).updated == ()
    assert [(it.version, it.status) for it in unit.committed().jobs] == [(0, Status.RUNNABLE)]


def test_a_change_that_is_none_of_its_life_is_saved_and_has_no_history():
    job = runnable()
    unit = learnt(job)

    unit.update(job, replace(job, tags=(("team", "blue"),)))

    assert [it.tags for it in changes(unit).updated] == [(("team", "blue"),)]
    assert changes(unit).history == ()


def test_a_submission_is_remembered_with_its_job_and_old_ones_may_go():
    job, key = submitted(), submission()
    unit = turn_over()

    unit.insert(job, key)

    assert unit.submitted == {key: job.id}
    assert changes(unit).submissions == ((key, job.id, NOON),)
    assert changes(unit).delete_submissions_before == NOON


def test_a_unit_of_work_without_submissions_forgets_none():
    job = running()
    unit = turn_over(job)

    unit.step(job.id, cancel())

    assert changes(unit).delete_submissions_before is None


# -------------------------------------------------------------------------------------------------------------- history


def test_history_has_a_line_for_each_status_the_job_came_into():
    job = submitted()
    unit = turn_over(now=at(5))

    unit.insert(job, None)
    unit.step(job.id, on.DependenciesMet())
    unit.step(job.id, on.FoundUnschedulable(reason="too large"))
    unit.step(job.id, on.FoundSchedulable())
    unit.step(job.id, placed())
    unit.step(job.id, started())
    unit.step(job.id, exited(1))

    history = changes(unit).history
    assert [(it.status, it.reason, it.attempt) for it in history] == [
        (Status.SUBMITTED, None, None),
        (Status.RUNNABLE, None, None),
        (Status.STARTING, None, 1),
        (Status.RUNNING, None, 1),
        (Status.FAILED, status_reasons.EXITED, None),
    ]
    assert {(it.job_id, it.at, it.stop) for it in history} == {(job.id, at(5), None)}


def test_history_has_a_line_for_each_step_of_a_stop_order():
    job = running()
    unit = turn_over(job, now=at(5))

    unit.step(job.id, cancel())
    unit.step(job.id, terminate())
    unit.step(job.id, asked())
    unit.step(job.id, on.StopSignalDelivered(attempt=1))
    unit.step(job.id, grace_over())
    unit.step(job.id, exited(137))

    history = changes(unit).history
    assert [(it.status, it.attempt, it.stop and (it.stop.progress, it.stop.kind)) for it in history] == [
        (Status.RUNNING, 1, ("ORDERED", "CANCEL")),
        (Status.RUNNING, 1, ("ORDERED", "TERMINATE")),
        (Status.RUNNING, 1, ("SIGNALLED", "TERMINATE")),
        (Status.RUNNING, 1, ("KILLED", "TERMINATE")),
        (Status.FAILED, None, None),
    ]


def test_history_names_the_node_that_an_order_stops_alone():
    job = after(ganged(), runs("0/app", address="10.0.0.2"), runs("1/app"))
    unit = turn_over(job, now=at(5))

    unit.step(job.id, on.TerminateRequested(reason="not you", user="ada", node=1))
    unit.step(job.id, is_asked("1/app"))

    steps = [it.stop for it in changes(unit).history]
    assert [(it.progress, it.user, it.node) for it in steps] == [("ORDERED", "ada", 1), ("SIGNALLED", "ada", 1)]


def test_each_status_change_has_the_status_before_and_after():
    job = submitted()
    unit = turn_over()

    unit.insert(job, None)
    unit.step(job.id, cancel())

    assert [(it.before, it.job.status) for it in unit.committed().transitions] == [
        (None, Status.SUBMITTED),
        (Status.SUBMITTED, Status.FAILED),
    ]


# -------------------------------------------------------------------------------------------------------------- streams


def test_an_attempt_that_began_to_run_has_a_log_stream():
    job = starting()
    unit = turn_over(job, now=at(3))

    unit.step(job.id, started())

    (stream,) = changes(unit).streams
    assert stream.name == stream_name("a-definition", job.tag) == f"a-definition/default/{job.tag.task_id}"
    assert (stream.tag, stream.created_at) == (job.tag, at(3))


@pytest.mark.parametrize("attempts", [1, 2])
def test_one_that_was_over_before_it_was_seen_running_has_one_too(attempts):
    job = starting(attempts=attempts)
    unit = turn_over(job)

    unit.step(job.id, exited(1))

    assert [it.tag for it in changes(unit).streams] == [job.tag]


def test_an_attempt_has_one_stream_however_much_is_heard_of_it():
    job = starting()
    unit = turn_over(job, now=NOON + timedelta(seconds=1))

    unit.step(job.id, started())
    unit.step(job.id, exited(0))

    assert [it.tag for it in changes(unit).streams] == [job.tag]


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (starting(), not_started()),
        (starting(), on.ContainerLost(attempt=1, reason=status_reasons.DISAPPEARED)),
        (after(starting(), terminate()), on.StartAbandoned(attempt=1)),
        (running(), exited(0)),
    ],
)
def test_what_never_ran_or_ran_before_has_no_new_stream(job, event):
    unit = turn_over(job)

    unit.step(job.id, event)

    assert changes(unit).streams == ()


def test_each_container_that_comes_to_run_has_a_stream_of_its_own():
    job = tasked(app(), sidecar())
    unit = turn_over(job)

    unit.step(job.id, runs("0/app"))
    unit.step(job.id, runs("0/sidecar"))
    unit.step(job.id, runs("0/sidecar"))

    tags = [replace(job.tag, container_key=key) for key in ("0/app", "0/sidecar")]
    assert [(it.tag, it.name) for it in changes(unit).streams] == [
        (tag, stream_name("a-definition", tag)) for tag in tags
    ]


def test_one_that_was_over_before_it_was_seen_to_run_has_a_stream_also_if_it_was_the_last():
    job = tasked(app())
    unit = turn_over(job)

    unit.step(job.id, ends("0/app"))

    assert [it.tag.container_key for it in changes(unit).streams] == ["0/app"]


def test_what_is_given_up_has_none():
    job = tasked(app(), attempts=2)
    unit = turn_over(job)

    unit.step(job.id, terminate())
    unit.step(job.id, given_up("0/app"))

    assert changes(unit).streams == ()
