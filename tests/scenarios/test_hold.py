"""Held jobs: placement passes them over until they are released."""

import asyncio

import pytest

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.enums import DependencyType, Role, Status
from batchq.domain.ids import QueueName, child_id
from batchq.domain.job import Dependency
from batchq.domain.lifecycle import holds
from batchq.engine import propagation as engine_arrays
from batchq.errors import Invalid, NotFound
from tests.support.builders import job_id
from tests.support.scripts import LASTING, Script, lasting

STRANGER = Caller(user=UserName("ada"), role=Role.USER)
IN_TURN = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)
WHOLE = 4000  # all vCPUs of the environment, in thousandths


@pytest.mark.parametrize(
    ("hold", "release", "prefix"), [("hold", "release", "HELD"), ("pause", "resume", "PAUSED")], ids=["held", "paused"]
)
async def test_a_held_or_paused_job_is_not_placed_until_it_is_released(world, hold, release, prefix):
    holder, job = await world.submit_behind()

    await getattr(world, hold)(job, "the licence is missing")
    await world.finish(holder, Status.SUCCEEDED)
    await world.wait_until_idle()

    reason = f"{prefix}: the licence is missing"
    held = await world.wait_for(job, Status.RUNNABLE, status_reason=reason, attempts=())
    assert (held.hold.reason, held.hold.user, held.hold.paused) == ("the licence is missing", "tester", hold == "pause")
    assert await world.engine_calls(job) == []
    await getattr(world, release)(job)
    await world.wait_for(job, Status.SUCCEEDED, hold=None, sequence=held.sequence)


async def test_a_held_head_delays_no_other_job(world):
    first = await world.submit_held(millicpus=WHOLE)
    second = await world.submit(Script(seconds=0), millicpus=WHOLE)

    await world.wait_for(second, Status.SUCCEEDED)

    await world.wait_for(first, Status.RUNNABLE, status_reason="HELD: not yet")


async def test_a_blocked_head_that_is_held_frees_its_reservation(world):
    holder = await world.submit(LASTING, millicpus=1000)
    head = await world.submit(Script(seconds=0), millicpus=WHOLE)
    behind = await world.submit(Script(seconds=0), millicpus=3000)
    await world.wait_for(head, Status.RUNNABLE)
    await world.wait_for(behind, Status.RUNNABLE)

    await world.hold(head)

    await world.wait_for(behind, Status.SUCCEEDED)
    await world.release(head)
    await world.finish(holder)
    await world.wait_for(head, Status.SUCCEEDED)


async def test_a_held_job_keeps_its_place(world):
    holder = await world.submit(LASTING, millicpus=WHOLE)
    first, second = [await world.submit(Script(seconds=0), millicpus=WHOLE) for _ in range(2)]
    await world.hold(first)
    await world.release(first)

    await world.finish(holder)

    await world.wait_for(second, Status.SUCCEEDED)
    placed = [
        (await world.wait_for(other_job_id, Status.SUCCEEDED)).attempts[0].placed_at for other_job_id in (first, second)
    ]
    assert placed == sorted(placed)


async def test_a_job_held_while_pending_is_held_when_its_dependencies_are_met(world):
    before = await world.submit(LASTING)
    job = await world.submit(Script(seconds=0), after=[before])
    await world.wait_for(job, Status.PENDING)
    await world.hold(job)

    await world.finish(before)

    await world.wait_for(job, Status.RUNNABLE, status_reason="HELD: not yet", attempts=())


async def test_a_repeated_request_changes_nothing(world):
    job = await world.submit_held()
    held = await world.job(job)

    await world.hold(job, "another reason")
    await world.pause(job, "another reason")

    assert await world.job(job) == held
    assert await world.release(job)
    assert not await world.release(job)
    assert not await world.resume(job)
    await world.wait_for(job, Status.SUCCEEDED)


@pytest.mark.parametrize("order", ["cancel", "terminate"])
async def test_a_held_job_can_be_cancelled_and_terminated(world, order):
    job = await world.submit_held()

    await getattr(world, order)(job, "no longer needed")

    await world.wait_for(job, Status.FAILED, status_reason="no longer needed", hold=None, attempts=())


async def test_a_hold_survives_a_restart(world):
    job = await world.submit_held()

    await world.restart()
    await world.wait_until_idle()

    await world.wait_for(job, Status.RUNNABLE, status_reason="HELD: not yet", attempts=())
    await world.release(job)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_job_held_in_a_backup_and_released_since_is_attached_to_its_attempt(world):
    if not world.virtual:
        pytest.skip("only the simulated world makes backups")
    job = await world.submit_held(script=Script(seconds=20, exit_code=3))
    backup = world.backup()
    await world.release(job)
    await world.wait_for(job, Status.RUNNING)

    await world.restore(backup)

    await world.wait_for(job, Status.RUNNING, hold=None)


async def test_jobs_that_cannot_be_held_are_refused(world):
    running = await world.start()

    with pytest.raises(Invalid, match="is RUNNING and cannot be held: pause it"):
        await world.hold(running)
    with pytest.raises(NotFound):
        await world.hold(job_id(1))
    with pytest.raises(NotFound):
        await world.jobs.hold(running, "mine", caller=STRANGER)
    await world.finish(running, Status.SUCCEEDED)
    for request in (world.hold, world.release, world.pause, world.resume):
        with pytest.raises(Invalid, match="is SUCCEEDED and can no longer be held"):
            await request(running)


async def test_the_history_shows_who_held_and_who_released_the_job(world):
    job = await world.submit_held("not yet")
    await world.release(job)
    await world.wait_for(job, Status.SUCCEEDED)

    held, released = [other_job.hold for other_job in await world.store.history(job) if other_job.hold is not None]

    assert (held.hold.reason, held.hold.user, held.released_by) == ("not yet", "tester", "")
    assert (released.hold, released.released_by) == (None, "tester")


async def test_a_job_can_be_held_so_often_and_no_more(world, monkeypatch):
    monkeypatch.setattr(holds, "MAX_HOLDS", 2)
    job = await world.submit_held()
    await drain(world)
    await world.release(job)
    await world.hold(job)
    await world.release(job)

    with pytest.raises(Invalid, match="held or paused 2 times, which is the maximum"):
        await world.hold(job)

    await drain(world, drained=False)
    done = await world.wait_for(job, Status.SUCCEEDED)
    assert done.times_held == 2


# -------------------------------------------------------------------------------------------------------------- arrays


async def test_a_held_array_starts_no_child_and_is_released_as_a_whole(world):
    array = await world.submit_held(script=Script(seconds=0), array_size=3)
    await world.wait_until_idle()

    children = [await world.job(child_id(array, index)) for index in range(3)]
    assert [(child.status, child.status_reason) for child in children] == [(Status.RUNNABLE, "HELD: not yet")] * 3
    await world.wait_for(array, Status.PENDING, status_reason="HELD: not yet")
    await world.release(array)
    await world.wait_for(array, Status.SUCCEEDED, hold=None)


async def test_children_that_run_when_their_array_is_held_are_held_before_their_retry(world):
    array = await world.submit(lasting(1), array_size=2, millicpus=WHOLE, attempts=2)
    first, second = child_id(array, 0), child_id(array, 1)
    await world.wait_for(first, Status.RUNNING)

    await world.hold(array)
    await world.wait_until_idle()
    await world.wait_for(first, Status.RUNNING)
    await world.finish(first)

    retried = await world.wait_for(first, Status.RUNNABLE, status_reason="HELD: not yet")
    assert len(retried.attempts) == 1
    await world.wait_for(second, Status.RUNNABLE, attempts=())
    await world.release(first)
    await world.wait_for(first, Status.RUNNING)
    await world.finish(first, Status.FAILED)
    await world.terminate(array)
    await world.wait_for(array, Status.FAILED, hold=None)


async def test_the_order_of_a_held_array_ends_its_children(world):
    array = await world.submit_held(array_size=3)
    await world.wait_until_idle()

    await world.cancel(array, "no longer needed")

    await world.wait_for(array, Status.FAILED, status_reason="no longer needed", hold=None)
    await world.wait_for(child_id(array, 2), Status.FAILED, status_reason="no longer needed", hold=None)


@pytest.mark.fault("SP30")
async def test_a_hold_of_a_large_array_survives_a_restart_between_two_batches(world, monkeypatch):
    monkeypatch.setattr(engine_arrays, "MAX_CHILDREN", 2)
    array = await world.submit_held(script=Script(seconds=0), array_size=7)
    await world.wait_until(array, lambda job: job.array_state is not None and job.array_state.order_applied_to > 1)

    await world.restart()
    await world.wait_until_idle()

    children = [await world.job(child_id(array, index)) for index in range(7)]
    assert all(child.held and not child.attempts for child in children)
    await world.release(array)
    await world.restart()
    await world.wait_for(array, Status.SUCCEEDED)


async def test_a_held_sequential_array_stays_held_when_a_later_child_is_cancelled(simulated, monkeypatch):
    # On Docker the order of the two requests is not determined.
    monkeypatch.setattr(engine_arrays, "MAX_CHILDREN", 2)
    holder, array = (
        await simulated.start(millicpus=WHOLE),
        await simulated.submit(Script(seconds=0), array_size=7, after=[IN_TURN]),
    )
    await simulated.wait_until(array, lambda job: job.array_state is not None and job.array_state.spawned == 7)

    await asyncio.gather(simulated.hold(array), simulated.cancel(child_id(array, 5)))
    await simulated.finish(holder)
    await simulated.wait_until_idle()

    children = [await simulated.job(child_id(array, index)) for index in range(7)]
    assert [child.held for child in children] == [True] * 5 + [False] * 2
    assert {child.status for child in children[5:]} == {Status.FAILED}
    assert not any(child.attempts for child in children)
    await simulated.release(array)
    await simulated.wait_for(child_id(array, 4), Status.SUCCEEDED)
    await simulated.wait_for(array, Status.FAILED)


@pytest.mark.parametrize("hold", ["hold", "pause"])
async def test_a_sequential_array_with_a_failed_child_cannot_be_held(world, hold):
    holder, array = await world.start(millicpus=WHOLE), await world.submit(array_size=4, after=[IN_TURN])
    await world.wait_until(array, lambda job: job.array_state is not None and job.array_state.spawned == 4)
    await world.cancel(child_id(array, 2))
    await world.wait_until_idle()

    with pytest.raises(Invalid, match="is an array whose children are being stopped"):
        await getattr(world, hold)(array)

    assert (await world.job(array)).hold is None
    await world.terminate(array)
    await world.finish(holder)


@pytest.mark.parametrize("release", ["release", "resume"])
async def test_a_release_of_an_array_that_is_not_held_releases_its_held_children(world, release):
    holder = await world.start(millicpus=WHOLE)
    array = await world.submit(Script(seconds=0), array_size=3)
    await world.wait_until_idle()
    await world.hold(child_id(array, 1))
    await world.pause(child_id(array, 2))

    await getattr(world, release)(array)

    await world.finish(holder)
    await world.wait_for(array, Status.SUCCEEDED)


async def test_a_release_of_a_cancelled_array_changes_nothing(world):
    array = await world.submit(LASTING, array_size=2)
    await world.wait_for(child_id(array, 1), Status.RUNNING)
    await world.cancel(array, "no longer needed")
    await world.wait_until_idle()
    before = await world.job(array)

    await world.release(array)

    assert await world.job(array) == before
    await world.terminate(array)
    await world.wait_for(array, Status.FAILED)


async def test_a_request_about_a_child_follows_that_about_its_array(world, monkeypatch):
    monkeypatch.setattr(engine_arrays, "MAX_CHILDREN", 2)
    holder = await world.start(millicpus=WHOLE)
    array = await world.submit_held(script=Script(seconds=0), array_size=7)
    last = child_id(array, 6)
    await world.wait_until_idle()

    await world.release(array)
    await world.hold(last, "this one alone")
    await world.wait_until_idle()

    await world.finish(holder)
    await world.wait_for(child_id(array, 5), Status.SUCCEEDED)
    await world.wait_for(last, Status.RUNNABLE, status_reason="HELD: this one alone")
    assert await world.release(last)
    await world.wait_for(array, Status.SUCCEEDED)


async def test_a_child_that_its_array_is_about_to_hold_counts_as_held(simulated, monkeypatch):
    monkeypatch.setattr(engine_arrays, "MAX_CHILDREN", 2)
    await simulated.start(millicpus=WHOLE)
    array = await simulated.submit(array_size=7)
    last = child_id(array, 6)
    await simulated.wait_for(last, Status.RUNNABLE)

    await simulated.hold(array)

    assert (await simulated.job(last)).hold is None
    assert await simulated.release(last)
    await simulated.wait_for(child_id(array, 5), Status.RUNNABLE, status_reason="HELD: not yet")
    assert (await simulated.job(last)).hold is None


# -------------------------------------------------------------------------------------------------------------- queues


async def test_a_drained_queue_accepts_jobs_and_starts_none(world):
    running = await world.start(attempts=2)

    await drain(world)
    job = await world.submit(Script(seconds=0))
    await world.wait_until_idle()

    await world.wait_for(job, Status.RUNNABLE, attempts=())
    await world.wait_for(running, Status.RUNNING)
    await drain(world, drained=False)
    await world.wait_for(job, Status.SUCCEEDED)
    await world.finish(running, Status.SUCCEEDED)


async def test_a_drained_queue_takes_no_resources_from_other_queues(world):
    await world.queue("urgent", priority=9)
    holder = await world.submit(LASTING, millicpus=1000)
    head = await world.submit(Script(seconds=0), millicpus=WHOLE, queue="urgent")
    job = await world.submit(Script(seconds=0), millicpus=3000)
    await world.wait_for(head, Status.RUNNABLE)
    await world.wait_for(job, Status.RUNNABLE)

    await drain(world, "urgent")

    await world.wait_for(job, Status.SUCCEEDED)
    await world.finish(holder)
    await drain(world, "urgent", drained=False)
    await world.wait_for(head, Status.SUCCEEDED)


async def test_a_drain_survives_a_restart_and_a_repetition_changes_nothing(world):
    drained = await drain(world)
    assert await drain(world) == drained
    job = await world.submit(Script(seconds=0))

    await world.restart()
    await world.wait_until_idle()

    await world.wait_for(job, Status.RUNNABLE, attempts=())
    await drain(world, drained=False)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_queue_that_does_not_exist_cannot_be_drained(world):
    with pytest.raises(NotFound):
        await drain(world, "nothing")


async def drain(world, name="default", *, drained=True):
    return await world.catalog.drain_queue(QueueName(name), drained=drained, caller=world.caller)
