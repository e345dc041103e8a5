"""What one turn reads, changes and wants."""

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
    turn = turn_over(active)

    turn.learn([queued])

    assert (turn.get(active.id), turn.get(queued.id), turn.get(stranger.id)) == (active, queued, None)


def test_what_the_turn_did_to_a_job_stands_when_it_is_learnt_again():
    job = runnable()
    turn = learnt(job)
    turn.step(job.id, placed())

    turn.learn([job])

    assert turn.get(job.id).status is Status.STARTING


def test_an_event_about_a_job_nobody_knows_is_pointless():
    turn = turn_over()

    turn.step(JobId("nobody"), cancel())

    assert changes(turn).empty
    assert turn.effects == []


def test_an_event_that_cannot_happen_leaves_the_turn_as_it_was():
    job = running()
    turn = turn_over(job)

    with pytest.raises(IllegalTransition):
        turn.step(job.id, placed())

    assert changes(turn).empty
    assert turn.effects == []


# -------------------------------------------------------------------------------------------------------------- effects


def test_an_effect_goes_with_the_job_as_it_is_after_the_step():
    job = runnable()
    turn = learnt(job)

    turn.step(job.id, placed())

    assert turn.effects == [(do.StartContainer(tag=Tag(job_id=job.id, attempt=1)), turn.get(job.id))]
    assert turn.get(job.id).attempt is not None


def test_effects_come_in_the_order_of_the_events():
    first, second = running(), running()
    turn = turn_over(first, second)

    turn.step(second.id, terminate())
    turn.step(first.id, exited(0))
    turn.step(second.id, exited(143))

    assert [effect for effect, _ in turn.effects] == [
        do.StopContainer(tag=second.tag),
        do.CleanUpContainer(tag=first.tag),
        do.CleanUpContainer(tag=second.tag),
    ]


# ------------------------------------------------------------------------------------------------------- who holds room


def test_who_holds_room_is_as_the_turn_leaves_it():
    stays, ends, begins = running(), running(), runnable()
    turn = turn_over(stays, ends)
    turn.learn([begins])

    turn.step(ends.id, exited(0))
    turn.step(begins.id, placed())
    turn.step(stays.id, cancel())

    assert turn.active() == {stays.id: turn.get(stays.id), begins.id: turn.get(begins.id)}
    assert turn.get(stays.id).cancelled is not None


def test_changed_jobs_are_paired_with_what_the_turn_made_of_them():
    new, again, untouched = submitted(), running(attempts=2), running()
    turn = turn_over(again, untouched)

    turn.insert(new, None)
    turn.step(new.id, on.DependenciesMet())
    turn.step(again.id, exited(1))

    assert [(it.after.id, it.after.status) for it in turn.pairs()] == [
        (new.id, Status.RUNNABLE),
        (again.id, Status.RUNNABLE),
    ]
    assert (turn.touched(again.id), turn.touched(untouched.id)) == (True, False)


def test_who_has_ended_is_told_once():
    done, goes_on = running(), running(attempts=2)
    turn = turn_over(done, goes_on)
    turn.step(done.id, exited(0))
    turn.step(goes_on.id, exited(1))

    assert (turn.take_stirred(), turn.take_stirred()) == ([done.id], [])


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (running(attempts=2), exited(1)),
        (running(), exited(0)),
        (starting(), not_started()),
    ],
)
def test_there_may_be_more_room_when(job, event):
    turn = turn_over(job)
    turn.learn([job])

    turn.step(job.id, event)

    assert turn.place


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
    turn = turn_over()
    later = replace(job, id=job_id(999_999), order=job.order + 1)
    turn.learn([job, later])

    turn.step(later.id, event)
    turn.step(job.id, event)

    assert (turn.stirred_lines, turn.place) == ({"default": job.order}, False)


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
    turn = turn_over(job)
    turn.learn([job])

    turn.step(job.id, event)

    assert (turn.place, turn.stirred_lines) == (False, {})
