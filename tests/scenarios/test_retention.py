"""Finished jobs are deleted after the retention period, unless they are still needed. Simulated: it takes hours."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.enums import DependencyType, Status
from batchq.domain.ids import SubmissionKey, child_id
from batchq.domain.job import Dependency
from batchq.engine.pruner import Pruner
from batchq.errors import Invalid
from tests.support.builders import ADMIN
from tests.support.scripts import Script

HOUR = timedelta(hours=1)
LONG_ENOUGH = 3700.0  # seconds
KEY = SubmissionKey(principal="ada", invocation_id="call-1", body_sha256="0")


pytestmark = pytest.mark.usefixtures("slow_loops")


@pytest.fixture
def world(simulated):
    return simulated


async def forget(world):
    """A round of it, on the engine as it is."""
    loop = world.engine.loop
    pruner = Pruner(
        store=world.store,
        archive=world.archive,
        clock=world.clock,
        retention=HOUR,
        unit_lock=loop.unit_lock,
        jobs_with_containers=lambda: loop.state.jobs_with_containers,
    )
    await pruner.prune_once()


async def known(world, *jobs):
    return [job in await world.store.jobs(jobs) for job in jobs]


async def an_hour_later(world):
    """When there is a newer job, which stays because it is the newest."""
    await world.sleep(LONG_ENOUGH)
    await world.run()


async def test_a_job_and_its_log_are_deleted_after_an_hour(world):
    job = await world.run(Script(seconds=1, output=("a line",)))
    await an_hour_later(world)

    await forget(world)

    assert await known(world, job) == [False]
    assert await world.statuses(job) == []
    assert await world.output(job) == []
    assert await world.jobs.describe([job], caller=ADMIN) == ()


async def test_a_job_whose_container_is_not_removed_yet_is_kept(world):
    world.runtime.hold("remove")
    job = await world.run(Script(seconds=1))
    await an_hour_later(world)
    await forget(world)
    while_it_is_there = await known(world, job)
    world.runtime.release("remove")
    await world.wait_until_containers_are_gone()
    await world.sleep(20)

    await forget(world)

    assert while_it_is_there == [True]
    assert await known(world, job) == [False]


async def test_while_the_engine_is_away_nothing_is_deleted(world):
    job = await world.run(Script(seconds=1))
    await an_hour_later(world)
    world.runtime.unreachable = True
    await world.wait_for_engine(up=False)
    await world.wait_until_idle()

    await forget(world)

    assert await known(world, job) == [True]


async def test_in_safe_mode_nothing_is_deleted(world):
    job = await world.run(Script(seconds=1))
    await an_hour_later(world)
    await world.restore(world.backup())

    await forget(world)

    assert await known(world, job) == [True]


async def test_a_dependency_that_was_deleted_stays_met(world):
    old = await world.run(Script(seconds=1))
    slow = await world.submit(Script(seconds=7200))
    waits = await world.submit(Script(seconds=1), after=[old, slow])
    await world.wait_for(waits, Status.PENDING)
    await an_hour_later(world)

    await forget(world)

    assert await known(world, old) == [True]
    await world.sleep(5000.0)
    await world.wait_for(waits, Status.SUCCEEDED)
    await an_hour_later(world)
    await forget(world)
    assert await known(world, old, slow, waits) == [False, False, False]


async def test_n_to_n_children_of_a_deleted_array_stay_met(world):
    old = await world.run(Script(seconds=1), array_size=3)
    slow = await world.submit(Script(seconds=7200))
    on_each = Dependency(job_id=old, type=DependencyType.N_TO_N)
    waits = await world.submit(Script(seconds=1), array_size=3, after=[on_each, slow])
    await world.wait_for(waits, Status.PENDING)
    await an_hour_later(world)

    await forget(world)
    await world.sleep(5000.0)

    assert await known(world, old, child_id(old, 2)) == [True, True]
    await world.wait_for(waits, Status.SUCCEEDED)


async def test_a_dependency_on_a_deleted_job_is_refused(world):
    job = await world.run(Script(seconds=1))
    await an_hour_later(world)
    await forget(world)

    with pytest.raises(Invalid, match="does not exist"):
        await world.submit(after=[job])


async def test_an_n_to_n_dependency_on_a_partly_deleted_array_is_refused(world):
    array = await world.run(array_size=3)
    await an_hour_later(world)
    await world.store.prune(world.clock.now() - HOUR, keep=(), limit=1)
    assert await known(world, array, child_id(array, 0)) == [True, False]

    with pytest.raises(Invalid, match="does not exist"):
        await world.submit(array_size=3, after=[Dependency(job_id=array, type=DependencyType.N_TO_N)])


async def test_a_dependency_deleted_during_the_submission_is_refused(world):
    job = await world.run()
    await an_hour_later(world)
    described = await world.jobs.describe([job], caller=ADMIN)

    await forget(world)

    assert described
    with pytest.raises(Invalid, match="does not exist"):
        await world.submit_and(world.cancel, after=[job])


async def test_a_submission_repeated_after_its_job_was_deleted_is_a_new_job(world):
    submission = replace(await world.submission(Script(seconds=1)), key=KEY)
    first = await world.submissions.submit(submission, caller=world.caller)
    again = await world.submissions.submit(submission, caller=world.caller)
    await world.wait_for(first.id, Status.SUCCEEDED)
    await an_hour_later(world)
    await forget(world)

    later = await world.submissions.submit(submission, caller=world.caller)

    assert (again.id, await known(world, first.id, later.id)) == (first.id, [False, True])
    await world.wait_for(later.id, Status.SUCCEEDED)


async def test_a_cancel_or_terminate_of_a_deleted_job_changes_nothing(world):
    job = await world.run(Script(seconds=1))
    await an_hour_later(world)
    await forget(world)

    await world.cancel(job)
    await world.terminate(job)

    assert await known(world, job) == [False]


async def test_submission_orders_ascend_after_all_jobs_were_deleted(world):
    first = await world.run(Script(seconds=1))
    last = await world.run(Script(seconds=1), array_size=5)
    await world.sleep(LONG_ENOUGH)
    await forget(world)
    await world.restart()

    new = await world.submit(Script(seconds=1))

    assert await known(world, first, last) == [False, True]
    assert (await world.job(new)).sequence > (await world.job(child_id(last, 4))).sequence
    await world.wait_for(new, Status.SUCCEEDED)


@pytest.mark.parametrize("declared", [{}, {"batchq:group-size": "9"}], ids=["ended", "unfinished"])
async def test_a_group_that_was_deleted_is_new_for_the_next_job(world, declared):
    group = {"batchq:group": "fit"}
    await world.run(Script(exit_code=1), Status.FAILED, tags=group | declared | {"batchq:max-failed": "1"})
    with pytest.raises(Invalid, match="the group takes no new jobs"):
        await world.submit(tags=group)
    await an_hour_later(world)

    await forget(world)

    await world.run(tags=group)
