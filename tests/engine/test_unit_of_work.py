"""The reads, changes and effects of one unit of work."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.engine.mailbox import TimerFired
from batchq.ports.jobs import Changes
from tests.domain.lives import (
    after,
    cancel,
    exited,
    pending,
    placed,
    runnable,
    running,
    signal_delivered,
    start_failed,
    started,
    starting,
    submitted,
    succeeded,
    terminate,
)
from tests.engine.harness import SURVEYED, changes, event_message, harness_with, new_unit, unit_with
from tests.support.builders import job_id


def test_loading_a_job_again_keeps_the_changes_of_the_unit_of_work():
    job = runnable()
    unit = unit_with(job)
    unit.step(job.id, placed())

    unit.load([job])

    assert unit.get(job.id).status is Status.STARTING


def test_an_event_of_an_unknown_job_has_no_effect():
    unit = new_unit()

    unit.step(JobId("unknown"), cancel())

    assert changes(unit) == Changes()
    assert unit.effects == []


def test_effects_have_the_order_of_their_events():
    first, second = running(), running()
    unit = new_unit(first, second)

    unit.step(second.id, terminate())
    unit.step(first.id, exited(0))
    unit.step(second.id, exited(143))

    assert [effect for effect, _ in unit.effects] == [
        do.StopContainer(tag=second.tag),
        do.CleanUpContainer(tag=first.tag),
        do.CleanUpContainer(tag=second.tag),
    ]


def test_active_jobs_are_those_after_the_unit_of_work():
    stays, ends, begins = running(), running(), runnable()
    unit = new_unit(stays, ends)
    unit.load([begins])

    unit.step(ends.id, exited(0))
    unit.step(begins.id, placed())
    unit.step(stays.id, cancel())

    assert unit.active() == {stays.id: unit.get(stays.id), begins.id: unit.get(begins.id)}
    assert unit.get(stays.id).cancel is not None


def test_job_changes_have_the_jobs_after_the_unit_of_work():
    new, again, untouched = submitted(), running(attempts=2), running()
    unit = new_unit(again, untouched)

    unit.insert(new, None)
    unit.step(new.id, on.DependenciesMet())
    unit.step(again.id, exited(1))

    assert [(change.after.id, change.after.status) for change in unit.job_changes] == [
        (new.id, Status.RUNNABLE),
        (again.id, Status.RUNNABLE),
    ]
    assert (unit.touched(again.id), unit.touched(untouched.id)) == (True, False)


def test_an_ended_job_is_taken_once():
    done, goes_on = running(), running(attempts=2)
    unit = new_unit(done, goes_on)
    unit.step(done.id, exited(0))
    unit.step(goes_on.id, exited(1))

    assert (unit.take_changed(), unit.take_changed()) == ([done.id], [])


@pytest.mark.parametrize(
    ("job", "event"), [(running(attempts=2), exited(1)), (running(), exited(0)), (starting(), start_failed())]
)
def test_placement_is_due_after(job, event):
    unit = new_unit(job)
    unit.load([job])

    unit.step(job.id, event)

    assert unit.placement.is_due


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (submitted(), on.DependenciesMet()),
        (pending(), on.DependenciesMet()),
        (runnable(), cancel()),
        (runnable(), terminate()),
    ],
)
def test_a_queue_is_changed_by(job, event):
    unit = new_unit()
    later = replace(job, id=job_id(999_999), sequence=job.sequence + 1)
    unit.load([job, later])

    unit.step(later.id, event)
    unit.step(job.id, event)

    assert (unit.placement.changed_queues, unit.placement.is_due) == ({"default": job.sequence}, False)


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (submitted(), on.DependenciesPending()),
        (pending(), cancel()),
        (starting(), started()),
        (running(), terminate()),
        (after(running(), terminate()), signal_delivered()),
        (succeeded(), cancel()),
    ],
)
def test_no_placement_is_due_after(job, event):
    unit = new_unit(job)
    unit.load([job])

    unit.step(job.id, event)

    assert (unit.placement.is_due, unit.placement.changed_queues) == (False, {})


AT_ONCE = timedelta(0)


def rings(job):
    """Its timeout, when its container is seen alive."""
    return TimerFired(job_id=job.id, running_container=job.tag)


@pytest.mark.fault("TM03")
async def test_an_exit_before_the_timeout_decides():
    job = running(timeout=AT_ONCE)
    harness = await harness_with(job)

    await harness.process(SURVEYED, event_message(job, exited(0)), rings(job))

    assert await harness.status(job) is Status.SUCCEEDED


@pytest.mark.fault("TM03")
@pytest.mark.parametrize("code", [0, 1])
async def test_an_exit_after_the_timeout_fails_the_job_without_a_retry(code):
    job = running(timeout=AT_ONCE, attempts=3)
    harness = await harness_with(job)

    await harness.process(SURVEYED, rings(job), event_message(job, exited(code)))

    done = (await harness.store.jobs([job.id]))[job.id]
    assert (done.status, done.status_reason) == (Status.FAILED, status_reasons.TIMED_OUT)
    assert [attempt.exit_code for attempt in done.attempts] == [code]
    assert do.StartContainer(tag=job.tag) not in harness.effects
