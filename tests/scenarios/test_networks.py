"""Jobs of a compute environment and an account share a network, unless the environment has another network."""

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, AccountName
from batchq.domain.catalog import Network
from batchq.domain.enums import Status
from tests.support.builders import ADMIN
from tests.support.containers import pause_container_ids, remove_pause_containers
from tests.support.scripts import HANDLES_SIGTERM, Script

NETWORK = Network.SHARED


async def test_a_job_whose_network_is_removed_before_its_start_runs_once(world):
    job = await world.submit_until("start", Script(seconds=0, output=("once",)))

    remove_pause_containers(world.machine)
    world.runtime.release("start")

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert await world.engine_calls(job) == ["create", "start", "create", "create", "start", "remove"]
    assert await world.output(job) == ["once"]


async def test_the_removal_of_a_network_ends_no_job_and_later_jobs_get_another(world):
    job = await world.start(HANDLES_SIGTERM)
    before = pause_container_ids(world.machine)

    remove_pause_containers(world.machine)
    other = await world.submit()

    await world.wait_for(other, Status.SUCCEEDED)
    assert (await world.job(job)).status is Status.RUNNING
    assert pause_container_ids(world.machine).keys() == before.keys()
    assert pause_container_ids(world.machine) != before


async def test_a_job_terminated_without_its_network_never_starts(world):
    job = await world.submit_until("start", HANDLES_SIGTERM)

    remove_pause_containers(world.machine)
    await world.terminate(job, "stop it")
    world.runtime.release("start")

    await world.wait_for(job, Status.FAILED, status_reason="stop it")


async def test_a_restart_between_the_removal_of_a_network_and_the_start_changes_nothing(world):
    job = await world.submit_until("start")

    await world.crash()
    remove_pause_containers(world.machine)
    world.runtime.release("start")
    await world.boot()

    assert len((await world.wait_for(job, Status.SUCCEEDED)).attempts) == 1


async def test_a_crash_while_a_container_that_cannot_start_is_replaced_costs_no_attempt(world):
    job = await world.submit_until("start", Script(seconds=0, output=("once",)))
    await world.crash()
    remove_pause_containers(world.machine)
    world.runtime.release("start")
    world.runtime.hold("create")
    await world.boot()
    await world.wait_for_call(job, "create", times=2)
    world.runtime.release("create")  # the container is found unable to start
    world.runtime.hold("create")
    await world.wait_for_call(job, "create", times=3)
    assert (await world.job(job)).attempt.containers[0].container_id is None
    await world.crash_after("create")

    await world.boot()

    assert len((await world.wait_for(job, Status.SUCCEEDED)).attempts) == 1
    await world.wait_until_containers_are_gone()
    assert await world.output(job) == ["once"]


async def test_an_environment_may_give_its_jobs_no_network(world):
    await world.environment("apart", max_millicpus=1000, network=Network.NONE)
    await world.queue("quiet", environments=("apart",))

    job = await world.submit(queue="quiet")

    await world.wait_for(job, Status.SUCCEEDED)
    assert pause_container_ids(world.machine) == {}


@pytest.mark.fault("SE29")
async def test_two_accounts_do_not_share_a_network(world):
    for account in (ROOT, AccountName("lab")):
        world.caller = replace(ADMIN, account=account)
        await world.run()

    assert pause_container_ids(world.machine).keys() == {("local", "root"), ("local", "lab")}
