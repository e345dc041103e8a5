"""The saved changes of a unit of work, its history entries and log streams."""

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.ids import stream_name
from batchq.ports.jobs import Changes
from tests.domain.lives import (
    after,
    at,
    cancel,
    exited,
    grace_expired,
    placed,
    runnable,
    running,
    signal_delivered,
    start_failed,
    started,
    starting,
    submitted,
    terminate,
)
from tests.domain.part_lives import app, ends, is_abandoned, is_signalled, multi_node_job, runs, sidecar, task_job
from tests.engine.harness import changes, new_unit, unit_with
from tests.support.builders import NOON, submission


def test_a_unit_of_work_in_which_nothing_changed_saves_nothing():
    job = running()
    unit = new_unit(job)

    unit.step(job.id, started())

    assert changes(unit) == Changes()
    assert (unit.committed(None).jobs, unit.committed(None).transitions) == ([], [])


def test_a_changed_job_is_saved_over_the_version_that_was_read():
    job = replace(runnable(), version=7)
    unit = unit_with(job)

    unit.step(job.id, placed())
    unit.step(job.id, started())

    assert [(job.version, job.status) for job in changes(unit).updated] == [(7, Status.RUNNING)]
    assert [(job.version, job.status) for job in unit.committed(None).jobs] == [(8, Status.RUNNING)]


def test_a_new_job_is_inserted_as_the_unit_of_work_leaves_it():
    job = submitted()
    unit = new_unit()

    unit.insert(job, None)
    unit.step(job.id, on.DependenciesMet())

    assert unit.take_new() == [job.id]
    assert [(job.version, job.status) for job in changes(unit).inserted] == [(0, Status.RUNNABLE)]
    assert changes(unit).updated == ()
    assert [(job.version, job.status) for job in unit.committed(None).jobs] == [(0, Status.RUNNABLE)]


def test_a_change_of_tags_is_saved_without_a_history_entry():
    job = runnable()
    unit = unit_with(job)

    unit.update(job, replace(job, tags=(("team", "blue"),)))

    assert [job.tags for job in changes(unit).updated] == [(("team", "blue"),)]
    assert changes(unit).history == ()


def test_a_submission_key_is_saved_with_its_job_and_old_keys_are_deleted():
    job, key = submitted(), submission()
    unit = new_unit()

    unit.insert(job, key)

    assert unit.submitted == {key: job.id}
    assert changes(unit).submissions == ((key, job.id, NOON),)
    assert changes(unit).delete_submissions_before == NOON


def test_a_unit_of_work_without_submissions_deletes_no_key():
    job = running()
    unit = new_unit(job)

    unit.step(job.id, cancel())

    assert changes(unit).delete_submissions_before is None


def test_the_history_has_an_entry_for_each_status():
    job = submitted()
    unit = new_unit(now=at(5))

    unit.insert(job, None)
    unit.step(job.id, on.DependenciesMet())
    unit.step(job.id, on.FoundUnschedulable(reason="too large"))
    unit.step(job.id, on.FoundSchedulable())
    unit.step(job.id, placed())
    unit.step(job.id, started())
    unit.step(job.id, exited(1))

    history = changes(unit).history
    assert [(job.status, job.reason, job.attempt) for job in history] == [
        (Status.SUBMITTED, None, None),
        (Status.RUNNABLE, None, None),
        (Status.STARTING, None, 1),
        (Status.RUNNING, None, 1),
        (Status.FAILED, status_reasons.EXITED, None),
    ]
    assert {(job.job_id, job.at, job.stop) for job in history} == {(job.id, at(5), None)}


def test_the_history_has_an_entry_for_each_step_of_a_stop_order():
    job = running()
    unit = new_unit(job, now=at(5))

    unit.step(job.id, cancel())
    unit.step(job.id, terminate())
    unit.step(job.id, signal_delivered())
    unit.step(job.id, on.StopSignalDelivered(attempt=1))
    unit.step(job.id, grace_expired())
    unit.step(job.id, exited(137))

    history = changes(unit).history
    assert [(job.status, job.attempt, job.stop and (job.stop.progress, job.stop.kind)) for job in history] == [
        (Status.RUNNING, 1, ("ORDERED", "CANCEL")),
        (Status.RUNNING, 1, ("ORDERED", "TERMINATE")),
        (Status.RUNNING, 1, ("SIGNALLED", "TERMINATE")),
        (Status.RUNNING, 1, ("KILLED", "TERMINATE")),
        (Status.FAILED, None, None),
    ]


def test_the_history_names_the_node_that_an_order_stops_alone():
    job = after(multi_node_job(), runs("0/app", address="10.0.0.2"), runs("1/app"))
    unit = new_unit(job, now=at(5))

    unit.step(job.id, on.TerminateRequested(reason="not you", user="ada", node=1))
    unit.step(job.id, is_signalled("1/app"))

    steps = [job.stop for job in changes(unit).history]
    assert [(step.progress, step.user, step.node) for step in steps] == [("ORDERED", "ada", 1), ("SIGNALLED", "ada", 1)]


def test_each_status_change_has_the_status_before_and_after():
    job = submitted()
    unit = new_unit()

    unit.insert(job, None)
    unit.step(job.id, cancel())

    assert [(transition.before, transition.job.status) for transition in unit.committed(None).transitions] == [
        (None, Status.SUBMITTED),
        (Status.SUBMITTED, Status.FAILED),
    ]


TASK, ONE_APP = task_job(app(), sidecar()), task_job(app(), attempts=2)


@pytest.mark.parametrize(
    ("job", "events", "containers"),
    [
        (starting(), [started(), exited(0)], [""]),
        (starting(), [exited(1)], [""]),
        (starting(attempts=2), [exited(1)], [""]),
        (TASK, [runs("0/app"), runs("0/sidecar"), runs("0/sidecar")], ["0/app", "0/sidecar"]),
        (ONE_APP, [ends("0/app")], ["0/app"]),
        (ONE_APP, [terminate(), is_abandoned("0/app")], []),
        (starting(), [start_failed()], []),
        (starting(), [on.ContainerLost(attempt=1, reason=status_reasons.DISAPPEARED)], []),
        (after(starting(), terminate()), [on.StartAbandoned(attempt=1)], []),
        (running(), [exited(0)], []),
    ],
    ids=[
        "started and ended",
        "ended before it was reported as running",
        "ended and retried",
        "each container of a task once",
        "a container that ended before it was reported as running",
        "an abandoned container",
        "a failed start",
        "a lost container",
        "an abandoned start",
        "a stream of an earlier unit of work",
    ],
)
def test_each_container_that_ran_gets_one_log_stream(job, events, containers):
    unit = new_unit(job, now=at(3))

    for event in events:
        unit.step(job.id, event)

    tags = [replace(job.tag, container_key=key) for key in containers]
    assert [(stream.tag, stream.name, stream.created_at) for stream in changes(unit).streams] == [
        (tag, stream_name("a-definition", tag), at(3)) for tag in tags
    ]
