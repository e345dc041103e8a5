"""Containers that the engine is silent about, on a clock that costs nothing. SP24."""

import asyncio

import pytest

from batchq.compute.docker.operation_pools import MAX_PAUSE, UnresponsiveContainers
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.containers import new_tag

pytestmark = pytest.mark.fault("SP24")


@pytest.fixture
def tag():
    return new_tag()


@pytest.fixture
def breakers(tag):
    containers = UnresponsiveContainers()
    containers.trip(tag)
    return containers


@pytest.fixture
async def now():
    return asyncio.get_running_loop().time


def found(tag, state):
    return [Inspection(tag=tag, state=state)]


async def is_silent_now(breakers, tag):
    async with breakers.call_slot(tag) as is_silent:
        return is_silent


async def times_out(breakers, tag):
    async with breakers.call_slot(tag):
        breakers.trip(tag)


async def time_out(breakers, tag, times):
    for _ in range(times):
        await times_out(breakers, tag)


async def test_a_call_about_another_container_does_not_wait(breakers, now):
    began = now()

    assert await is_silent_now(breakers, new_tag()) is False
    assert now() == began


async def test_each_timeout_doubles_the_pause_before_the_next_call(breakers, tag, now):
    began = now()

    await time_out(breakers, tag, 3)

    assert now() - began == pytest.approx(1 + 2 + 4)


async def test_the_pause_has_a_maximum(breakers, tag, now):
    await time_out(breakers, tag, 10)
    began = now()

    await times_out(breakers, tag)

    assert now() - began == pytest.approx(MAX_PAUSE)


async def test_calls_about_a_silent_container_are_made_one_at_a_time(breakers, tag, now):
    async with breakers.call_slot(tag):
        second = asyncio.create_task(is_silent_now(breakers, tag))
        await asyncio.wait([second], timeout=100)
        waited = not second.done()

    assert waited
    assert await second is True


async def test_a_reply_ends_the_pause_of_all_waiting_calls(breakers, tag, now):
    await time_out(breakers, tag, 5)
    waiting = [asyncio.create_task(is_silent_now(breakers, tag)) for _ in range(3)]
    await asyncio.wait(waiting, timeout=0.1)
    began = now()

    breakers.reset(tag)

    assert await asyncio.gather(*waiting) == [False] * 3
    assert now() == began


async def test_a_survey_that_finds_an_exit_ends_the_pause_but_keeps_the_breaker_open(breakers, tag, now):
    await time_out(breakers, tag, 5)
    began = now()
    waiting = asyncio.create_task(is_silent_now(breakers, tag))
    await asyncio.wait([waiting], timeout=0.1)

    breakers.survey_succeeded(found(tag, ContainerState.EXITED))

    assert await waiting is True
    assert now() - began < 1


async def test_a_timeout_after_an_exit_restores_the_pause(breakers, tag, now):
    breakers.survey_succeeded(found(tag, ContainerState.EXITED))
    await times_out(breakers, tag)
    began = now()

    await times_out(breakers, tag)

    assert now() - began == pytest.approx(2)


async def test_a_survey_that_finds_it_running_does_not_end_the_pause(breakers, tag, now):
    began = now()
    waiting = asyncio.create_task(is_silent_now(breakers, tag))
    await asyncio.wait([waiting], timeout=0.1)

    breakers.survey_succeeded(found(tag, ContainerState.RUNNING))

    assert await waiting is True
    assert now() - began == pytest.approx(1)


async def test_a_survey_after_a_failed_survey_ends_all_pauses(breakers, tag, now):
    await time_out(breakers, tag, 5)
    began = now()
    waiting = asyncio.create_task(is_silent_now(breakers, tag))
    breakers.survey_failed()
    await asyncio.wait([waiting], timeout=0.1)

    breakers.survey_succeeded(found(tag, ContainerState.RUNNING))

    assert await waiting is True
    assert now() - began < 1


async def test_the_breaker_of_a_removed_container_is_closed(breakers, tag):
    breakers.survey_succeeded([])

    assert await is_silent_now(breakers, tag) is False
