"""The steps of a stop ladder are sent once and in their order, also while the engine does not answer."""

import asyncio

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.engine.containers.executor import SIGNAL_RETRY_INTERVAL
from tests.engine.test_executor import Outside


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
