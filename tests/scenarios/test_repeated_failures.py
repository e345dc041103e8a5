"""Jobs that fail at once, repeatedly, before a long queue. Simulated: it takes a thousand of them."""

import pytest

from batchq.domain.job import FINISHED, Status
from tests.support import world as worlds
from tests.support.scripts import Script

STORM, WAITING = 20, 1000
ATTEMPTS = 10


@pytest.fixture
async def world():
    async with worlds.simulated() as running:
        yield running


@pytest.mark.fault("TM04")
async def test_a_job_that_fails_at_once_has_its_attempts_one_after_another(world):
    job = await world.submit(Script(seconds=0, exit_code=1), attempts=ATTEMPTS)

    done = await world.wait_for(job, Status.FAILED)

    assert [it.exit_code for it in done.attempts] == [1] * ATTEMPTS
    asked = [what for tag, what in world.runtime.all_calls if tag.job_id == job]
    assert asked == ["create", "start", "remove"] * ATTEMPTS


@pytest.mark.exhaustive
@pytest.mark.fault("TM04", "TM07")
async def test_many_retries_keep_the_order_of_a_long_queue(world):
    failing = [await world.submit(Script(seconds=0, exit_code=1), attempts=ATTEMPTS) for _ in range(STORM)]
    waiting = await world.submit_many(WAITING, Script(seconds=1))

    ends = [await world.wait_until(job, lambda it: it.status in FINISHED) for job in (*failing, *waiting)]

    begun = [tag.job_id for tag, what in world.runtime.all_calls if what == "start" and tag.attempt == 1]
    assert begun == [*failing, *waiting]
    assert [it.status for it in ends] == [Status.FAILED] * STORM + [Status.SUCCEEDED] * WAITING
    assert {len(it.attempts) for it in ends[:STORM]} == {ATTEMPTS}
