"""Calls about one container are made one after another, and a container being started is not inspected."""

import asyncio

from batchq.domain import effects as do
from batchq.domain import events as on
from tests.engine.test_executor import Outside


async def test_a_container_is_not_cleaned_up_during_its_start():
    outside = Outside(seconds=60, start_delay=5)
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.execute(do.CleanUpContainer(tag=outside.tag), outside.job)
    await outside.tasks.drain(max_seconds=1000)

    assert [type(it) for it in outside.news] == [on.ContainerStarted]
    assert await outside.simulated.survey() == ()


async def test_a_reported_start_is_not_run_again():
    outside = Outside(seconds=60)
    await outside.does(do.StartContainer(tag=outside.tag))

    await outside.does(do.StartContainer(tag=outside.tag))

    assert outside.engine.calls(outside.tag) == ["create", "start"]


async def test_a_container_that_is_being_started_is_not_lost():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.inspect_again(outside.tag)
    await asyncio.sleep(1)

    assert outside.news == []
    outside.saving.set()
    await outside.tasks.drain(max_seconds=1000)


async def test_a_stop_of_an_absent_container_causes_an_inspection():
    outside = Outside(seconds=60)

    await outside.does(do.StopContainer(tag=outside.tag))

    assert outside.news == [on.ContainerLost(attempt=1)]
