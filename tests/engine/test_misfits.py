"""Jobs that no environment of their queue could hold: set aside, and taken up again when the ground has changed."""

from dataclasses import replace

from batchq.domain import events as on
from batchq.domain import reasons
from batchq.domain.job import Status
from batchq.domain.placement import Room
from batchq.engine.scheduling import MISFIT_PAGE
from batchq.engine.scheduling import free_misfits as free_misfits_of
from tests.domain.lives import after, cancel, runnable, running
from tests.engine.turns import filled, ground, placed_in, site, statuses, stored, turn_over
from tests.support.builders import environment


def misfit(**asked):
    return after(runnable(**asked), on.FoundMisfit(reason=reasons.TOO_MANY_VCPUS))


WIDER = ground(environments=[environment(max_millicpus=9000)])


async def free_misfits(turn, store, on_ground):
    await free_misfits_of(turn, store, on_ground, room=Room(site=site(on_ground), active=(), now=turn.now))


async def test_a_misfit_is_marked_and_those_behind_it_go_on():
    huge, small = runnable(millicpus=9000), runnable()
    store = await stored(huge, small)

    turn = await filled(store, ground())

    assert (turn.get(huge.id).misfit, turn.get(huge.id).status_reason) == (True, reasons.TOO_MANY_VCPUS)
    assert placed_in(turn, huge, small) == [None, "local"]


async def test_a_marked_misfit_is_not_asked_about_again():
    huge = misfit(millicpus=9000)
    store = await stored(huge)

    turn = await filled(store, ground())

    assert not turn.knows(huge.id)


async def test_misfits_are_free_when_the_ground_could_hold_them():
    huge, still = misfit(millicpus=9000), misfit(millicpus=10_000)
    store = await stored(huge, still)
    turn = turn_over()

    await free_misfits(turn, store, WIDER)

    assert (turn.get(huge.id).misfit, turn.get(huge.id).status_reason) == (False, None)
    assert turn.get(still.id) == still


async def test_a_freed_misfit_is_placed_in_the_same_turn_at_its_own_place_in_the_line():
    huge, small = misfit(millicpus=9000), runnable(millicpus=1000)
    store = await stored(huge, small)
    turn = turn_over()
    await free_misfits(turn, store, WIDER)

    await filled(store, WIDER, turn)

    assert placed_in(turn, huge, small) == ["local", None]


async def test_misfits_are_freed_however_many_they_are():
    jobs = [misfit(millicpus=9000) for _ in range(MISFIT_PAGE + 1)]
    store = await stored(*jobs)
    turn = turn_over()

    await free_misfits(turn, store, WIDER)

    assert not [job for job in jobs if turn.get(job.id).misfit]


async def test_what_runs_does_not_make_a_misfit_of_anybody():
    runs, huge = running(millicpus=9000), misfit(millicpus=9000)
    store = await stored(runs, huge)
    turn = turn_over(runs)

    await free_misfits(turn, store, WIDER)

    assert not turn.get(huge.id).misfit


async def test_a_misfit_that_was_cancelled_in_this_turn_stays_so():
    huge = misfit(millicpus=9000)
    store = await stored(huge)
    turn = turn_over()
    turn.learn([huge])
    turn.step(huge.id, cancel())

    await free_misfits(turn, store, WIDER)

    assert statuses(turn, huge) == [Status.FAILED]


async def test_a_misfit_that_was_tagged_in_this_turn_is_freed_too():
    huge = misfit(millicpus=9000)
    store = await stored(huge)
    turn = turn_over()
    turn.learn([huge])
    turn.keep(huge, replace(huge, tags=(("team", "blue"),)))

    await free_misfits(turn, store, WIDER)

    assert (turn.get(huge.id).misfit, turn.get(huge.id).tags) == (False, (("team", "blue"),))


async def test_a_misfit_whose_queue_is_gone_stops_nobody():
    orphan, huge = misfit(millicpus=9000, queue="gone"), misfit(millicpus=9000)
    store = await stored(orphan, huge)
    turn = turn_over()

    await free_misfits(turn, store, WIDER)

    assert not turn.get(huge.id).misfit
