"""Calls about one container are made one after another, and a container being started is not inspected."""

import asyncio

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.engine.containers.executor import SIGNAL_RETRY_INTERVAL
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


async def starts_deaf():
    outside = Outside(seconds=60, on_term=None)
    await outside.does(do.StartContainer(tag=outside.tag))
    return outside


def step(outside, number, signal=None):
    return do.StopContainer(tag=outside.tag, step=number, signal=signal)


async def test_each_step_is_sent_once_and_reported_with_its_number():
    outside = await starts_deaf()

    for number in (0, 1, 1):
        await outside.does(step(outside, number))

    assert outside.engine.calls(outside.tag).count("stop") == 2
    assert outside.news[1:] == [on.StopSignalDelivered(attempt=1, step=number) for number in (0, 1, 1)]


async def test_a_step_without_an_answer_is_not_repeated_once_a_later_one_is_requested():
    outside = await starts_deaf()
    outside.engine.unreachable = True
    outside.executor.execute(step(outside, 0), outside.job)
    await asyncio.sleep(SIGNAL_RETRY_INTERVAL)

    outside.executor.execute(step(outside, 1), outside.job)
    outside.engine.unreachable = False

    await outside.tasks.drain(max_seconds=1000)
    assert outside.news[1:] == [on.StopSignalDelivered(attempt=1, step=1)]


async def test_a_step_without_an_answer_does_not_delay_a_kill():
    outside = await starts_deaf()
    outside.engine.unreachable = True
    outside.executor.execute(step(outside, 0), outside.job)
    await asyncio.sleep(SIGNAL_RETRY_INTERVAL)

    outside.executor.execute(do.KillContainer(tag=outside.tag), outside.job)
    outside.engine.unreachable = False

    await outside.tasks.drain(max_seconds=1000)
    assert outside.engine.calls(outside.tag)[-1] == "kill"
    assert outside.news[1:] == []


async def test_no_signal_is_sent_after_a_kill():
    outside = await starts_deaf()
    await outside.does(do.KillContainer(tag=outside.tag))

    await outside.does(step(outside, 0))

    assert "stop" not in outside.engine.calls(outside.tag)
