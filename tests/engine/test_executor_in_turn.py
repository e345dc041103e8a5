"""What the executor keeps apart: calls about one container, and a look at what is only on its way to its start."""

import asyncio

from batchq.domain import effects as do
from batchq.domain import events as on
from tests.engine.test_executor import Outside


async def test_a_container_is_not_cleared_away_in_the_midst_of_its_start():
    outside = Outside(seconds=60, start_delay=5)
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.execute(do.CleanUpContainer(tag=outside.tag), outside.job)
    await outside.tasks.drain(max_seconds=1000)

    assert [type(it) for it in outside.news] == [on.ContainerStarted]
    assert await outside.simulated.survey() == ()


async def test_a_start_that_came_to_its_verdict_is_not_made_again():
    outside = Outside(seconds=60)
    await outside.does(do.StartContainer(tag=outside.tag))

    await outside.does(do.StartContainer(tag=outside.tag))

    assert outside.engine.calls(outside.tag) == ["create", "start"]


async def test_one_that_is_on_its_way_to_its_start_is_not_lost():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.inspect_again(outside.tag)
    await asyncio.sleep(1)

    assert outside.news == []
    outside.saving.set()
    await outside.tasks.drain(max_seconds=1000)


async def test_a_stop_that_finds_nobody_asks_what_has_become_of_it():
    outside = Outside(seconds=60)

    await outside.does(do.StopContainer(tag=outside.tag))

    assert outside.news == [on.ContainerLost(attempt=1)]
