"""What is recorded of the activity: each job counts once, with its outcome, also if the server is killed."""

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Role, Status
from batchq.domain.ids import QueueName
from tests.support.builders import ADMIN
from tests.support.scripts import LASTING, Script

FAILING = Script(seconds=0, exit_code=3)


async def recorded(world, caller=ADMIN):
    await world.server.recorder.record_once()
    return (await world.server.activity.activity(QueueName("default"), caller=caller)).buckets


def ends(buckets):
    return tuple(sum(getattr(bucket.ends, name) for bucket in buckets) for name in ("succeeded", "failed", "stopped"))


async def test_each_outcome_is_counted_once(world):
    await world.run()
    await world.run(FAILING, Status.FAILED)
    for stop in (world.terminate, world.cancel):
        waiting = await world.submit_held()
        await stop(waiting)
        await world.wait_for(waiting, Status.FAILED)

    assert ends(await recorded(world)) == (1, 1, 2)
    assert ends(await recorded(world)) == (1, 1, 2)


async def test_children_are_counted_and_their_array_is_not(world):
    array = await world.submit(Script(seconds=0), array_size=3)
    await world.wait_for(array, Status.SUCCEEDED)

    buckets = await recorded(world)
    assert ends(buckets) == (3, 0, 0)
    assert sum(sum(bucket.ends.waits) for bucket in buckets) == 3


async def test_a_killed_server_loses_no_outcome(world):
    await world.run()
    await recorded(world)
    await world.run(FAILING, Status.FAILED)
    await world.restart()

    assert ends(await recorded(world)) == (1, 1, 0)


async def test_running_and_waiting_jobs_are_in_the_sample(world):
    job = await world.start(LASTING)
    held = await world.submit_held()

    load = (await recorded(world))[-1].load

    spec = (await world.job(job)).spec
    assert (load.running, load.waiting) == (1, 1)
    assert (load.millicpus, load.memory_mib) == (spec.resources.millicpus, spec.resources.memory_mib)
    for each in (job, held):
        await world.terminate(each)
        await world.wait_for(each, Status.FAILED)


async def test_a_user_sees_the_own_jobs_only(world):
    await world.run()

    stranger = Caller(user="eve", role=Role.USER)
    assert ends(await recorded(world, stranger)) == (0, 0, 0)
    assert ends(await recorded(world, replace(stranger, user=ADMIN.user))) == (1, 0, 0)


async def test_the_capacity_is_that_of_the_environments_of_the_queue(world):
    capacity = (await recorded(world))[-1].capacity

    assert capacity.millicpus == sum(environment.max_millicpus for environment in world.catalog.environments.values())
    assert capacity.memory_mib > 0
