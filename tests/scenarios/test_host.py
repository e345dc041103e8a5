"""The machine goes down with all that runs. On a real engine: tests/faults/test_engine_restarts.py."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.job import Action, ExitRule, Status
from tests.support import world as worlds
from tests.support.scripts import Script

RULES = (
    ExitRule(action=Action.RETRY, on_status_reason="Host EC2*"),
    ExitRule(action=Action.EXIT, on_reason="*"),
)


@pytest.fixture
async def world():
    async with worlds.pretended() as living:
        yield living


async def test_a_rule_for_lost_hosts_runs_the_job_again(world):
    job = await world.submit(Script(seconds=30), attempts=3, rules=RULES)
    await world.then(job, Status.RUNNING)

    world.machine.go_down()

    done = await world.then(job, Status.SUCCEEDED)
    told = [(it.exit_code, it.status_reason) for it in done.attempts]
    assert told == [(255, status_reasons.HOST_TERMINATED), (0, status_reasons.EXITED)]


async def test_one_that_failed_by_itself_before_is_not_taken_for_lost(world):
    job = await world.submit(Script(seconds=1, exit_code=3), attempts=3, rules=RULES)
    await world.then(job, Status.FAILED, status_reason=status_reasons.EXITED)


async def test_so_it_does_after_a_start_on_the_machine_that_came_back(world):
    job = await world.submit(Script(seconds=30), attempts=3, rules=RULES)
    await world.then(job, Status.RUNNING)

    await world.crash()
    world.machine.go_down()
    await world.boot()

    assert len((await world.then(job, Status.SUCCEEDED)).attempts) == 2


async def test_where_containers_are_gone_with_it_that_is_the_reason_too(world):
    job = await world.submit(Script(seconds=30), attempts=2, rules=RULES)
    tag = (await world.then(job, Status.RUNNING)).tag

    await world.crash()
    world.machine.go_down()
    world.machine.vanish(tag)
    await world.boot()

    done = await world.then(job, Status.SUCCEEDED)
    assert done.attempts[0].status_reason == status_reasons.HOST_TERMINATED
