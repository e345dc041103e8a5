"""Owners of jobs: for other users a job does not exist."""

import pytest

from batchq.domain.access.accounts import Caller, Owner
from batchq.domain.catalog import Network
from batchq.domain.job import Status
from batchq.errors import Invalid, NotFound
from batchq.logs.pages import StreamOrder, StreamQuery
from tests.support.scripts import LASTING, Script

NETWORK = Network.BRIDGE  # which each account may have, and the host's not
ADA = Caller(user="ada", account="team", lineage=("team", "root"))
BOB = Caller(user="bob", account="team", lineage=("team", "root"))
CORA = Caller(user="cora", account="lab", coordinates=frozenset({"lab", "team"}))
STREAMS = StreamQuery(order=StreamOrder.NAME, descending=False)


@pytest.fixture
def world(world):
    """What is done in it is done by ada."""
    world.caller = ADA
    return world


@pytest.mark.fault("SE08")
async def test_a_job_is_stopped_by_its_coordinator_and_not_by_others(world):
    job = await world.submit(Script(seconds=600, on_term=1, output=("ready",)))
    await world.wait_for_output(job, "ready")

    await world.jobs.terminate(job, "not mine", caller=BOB)
    await world.jobs.cancel(job, "not mine", caller=BOB)
    await world.jobs.terminate(job, "his", caller=CORA)

    await world.wait_for(job, Status.FAILED, status_reason="his", is_cancelled=False)


@pytest.mark.fault("SE08")
async def test_a_log_is_read_by_users_who_reach_the_job(world):
    job = await world.submit(Script(seconds=0, output=("secret",)))
    await world.wait_for(job, Status.SUCCEEDED)

    (told,), _ = await world.logs.streams(STREAMS, after=None, limit=9, caller=ADA)
    unseen = await world.logs.streams(STREAMS, after=None, limit=9, caller=BOB)

    assert (told.stream.tag.job_id, told.stream.owner) == (job, Owner(user="ada", account="team"))
    assert unseen == ((), None)
    assert await world.logs.stream(told.stream.name, caller=CORA) == told.stream
    with pytest.raises(NotFound):
        await world.logs.stream(told.stream.name, caller=BOB)


async def test_children_and_jobs_after_a_restart_keep_their_owner(world):
    array = await world.submit(Script(seconds=600, on_term=1), array_size=2)
    await world.wait_for(f"{array}:1", Status.RUNNING)

    await world.restart()
    await world.jobs.terminate(f"{array}:1", "not mine", caller=BOB)
    await world.jobs.terminate(array, "mine", caller=ADA)

    await world.wait_for(array, Status.FAILED, status_reason="mine")
    assert await world.jobs.describe([array, f"{array}:0"], caller=BOB) == ()


async def test_a_coordinator_may_depend_on_a_job_that_is_hidden_from_others(world):
    first = await world.submit(LASTING)

    world.caller = CORA
    second = await world.submit(Script(seconds=0), after=[first])
    world.caller = BOB
    with pytest.raises(Invalid, match=f"Job {first} in dependsOn does not exist"):
        await world.submit(Script(seconds=0), after=[first])

    await world.finish(first)
    await world.wait_for(second, Status.SUCCEEDED)
