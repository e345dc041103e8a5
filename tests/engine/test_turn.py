"""What one unit of work reads, changes and wants."""

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Status
from batchq.errors import IllegalTransition
from tests.domain.lives import (
    after,
    asked,
    cancel,
    exited,
    not_started,
    pending,
    placed,
    runnable,
    running,
    started,
    starting,
    submitted,
    succeeded,
    terminate,
)
from tests.engine.turns import changes, learnt, turn_over
from tests.support.builders import job_id

# -------------------------------------------------------------------------------------------------------------- knowing


def test_active_jobs_are_known_and_others_when_they_were_learnt():
    active, queued, stranger = running(), runnable(), runnable()
    unit = turn_over(active)

    unit.load([queued])

    assert (unit.get(active.id), unit.get(queued.id), unit.get(stranger.id)) == (active, queued, None)


def test_what_the_unit_of_work_did_to_a_job_stands_when_it_is_learnt_again():
    job = runnable()
    unit = learnt(job)
    unit.step(job.id, placed())

    unit.load([job])

    assert unit.get(job.id).status is Status.STARTING


def test_an_event_about_a_job_nobody_knows_is_pointless():
    unit = turn_over()

    unit.step(JobId("nobody"), cancel())

    assert changes(unit).empty
    assert unit.effects == []


def test_an_event_that_cannot_happen_leaves_the_unit_of_work_as_it_was():
    job = running()
    unit = turn_over(job)

    with pytest.raises(IllegalTransition):
        unit.step(job.id, placed())

    assert changes(unit).empty
    assert unit.effects == []


# -------------------------------------------------------------------------------------------------------------- effects


def test_an_effect_goes_with_the_job_as_it_is_after_the_step():
    job = runnable()
    unit = learnt(job)

    unit.step(job.id, placed())

    assert unit.effects == [(do.StartContainer(tag=Tag(job_id=job.id, attempt=1)), unit.get(job.id))]
    assert unit.get(job.id).attempt is not None


def test_effects_come_in_the_order_of_the_events():
    first, second = running(), running()
    unit = turn_over(first, second)

    unit.step(second.id, terminate())
    unit.step(first.id, exited(0))
    unit.step(second.id, exited(143))

    assert [effect for effect, _ in unit.effects] == [
        do.StopContainer(tag=second.tag),
        do.CleanUpContainer(tag=first.tag),
        do.CleanUpContainer(tag=second.tag),
    ]


# ------------------------------------------------------------------------------------------------------- who holds room


def test_who_holds_room_is_as_the_unit_of_work_leaves_it():
    stays, ends, begins = running(), running(), runnable()
    unit = turn_over(stays, ends)
    unit.load([begins])

    unit.step(ends.id, exited(0))
    unit.step(begins.id, placed())
    unit.step(stays.id, cancel())

    assert unit.active() == {stays.id: unit.get(stays.id), begins.id: unit.get(begins.id)}
    assert unit.get(stays.id).cancel is not None


def test_changed_jobs_are_paired_with_what_the_unit_of_work_made_of_them():
    new, again, untouched = submitted(), running(attempts=2), running()
    unit = turn_over(again, untouched)

    unit.insert(new, None)
    unit.step(new.id, on.DependenciesMet())
    unit.step(again.id, exited(1))

    assert [(it.after.id, it.after.status) for it in unit.job_changes()] == [
        (new.id, Status.RUNNABLE),
        (again.id, Status.RUNNABLE),
    ]
    assert (unit.touched(again.id), unit.touched(untouched.id)) == (True, False)


def test_who_has_ended_is_told_once():
    done, goes_on = running(), running(attempts=2)
    unit = turn_over(done, goes_on)
    unit.step(done.id, exited(0))
    unit.step(goes_on.id, exited(1))

    assert (unit.take_changed(), unit.take_changed()) == ([done.id], [])


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (running(attempts=2), exited(1)),
        (running(), exited(0)),
        (starting(), not_started()),
    ],
)
def test_there_may_be_more_room_when(job, event):
    unit = turn_over(job)
    unit.load([job])

    unit.step(job.id, event)

    assert unit.placement_due


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (submitted(), on.DependenciesMet()),
        (pending(), on.DependenciesMet()),
        (runnable(), cancel()),
        (runnable(), terminate()),
    ],
)
def test_a_line_is_another_when(job, event):
    unit = turn_over()
    later = replace(job, id=job_id(999_999), order=job.order + 1)
    unit.load([job, later])

    unit.step(later.id, event)
    unit.step(job.id, event)

    assert (unit.changed_queues, unit.placement_due) == ({"default": job.order}, False)


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (submitted(), on.DependenciesPending()),
        (pending(), cancel()),
        (starting(), started()),
        (running(), terminate()),
        (after(running(), terminate()), asked()),
        (succeeded(), cancel()),
    ],
)
def test_there_is_nothing_more_to_place_when(job, event):
    unit = turn_over(job)
    unit.load([job])

    unit.step(job.id, event)

    assert (unit.placement_due, unit.changed_queues) == (False, {})
