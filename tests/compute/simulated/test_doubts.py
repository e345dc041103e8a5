"""Containers that the engine is silent about, on a clock that costs nothing. SP24."""

import asyncio

import pytest

from batchq.compute.docker.circuit_breaker import MAX_PAUSE, SilentContainers
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.containers import new_tag

pytestmark = pytest.mark.fault("SP24")


@pytest.fixture
def tag():
    return new_tag()


@pytest.fixture
def doubts(tag):
    it = SilentContainers()
    it.trip(tag)
    return it


@pytest.fixture
async def now():
    return asyncio.get_running_loop().time


def found(tag, state):
    return [Inspection(tag=tag, state=state)]


async def in_doubt(doubts, tag):
    async with doubts.call_slot(tag) as doubtful:
        return doubtful


async def goes_unanswered(doubts, tag):
    async with doubts.call_slot(tag):
        doubts.trip(tag)


async def fails(doubts, tag, times):
    for _ in range(times):
        await goes_unanswered(doubts, tag)


async def test_a_call_about_another_goes_its_way_at_once(doubts, now):
    began = now()

    assert await in_doubt(doubts, new_tag()) is False
    assert now() == began


async def test_each_silence_makes_the_pause_before_the_next_call_longer(doubts, tag, now):
    began = now()

    await fails(doubts, tag, 3)

    assert now() - began == pytest.approx(1 + 2 + 4)


async def test_the_pause_has_its_bounds(doubts, tag, now):
    await fails(doubts, tag, 10)
    began = now()

    await goes_unanswered(doubts, tag)

    assert now() - began == pytest.approx(MAX_PAUSE)


async def test_its_calls_are_made_one_at_a_time(doubts, tag, now):
    async with doubts.call_slot(tag):
        second = asyncio.create_task(in_doubt(doubts, tag))
        await asyncio.wait([second], timeout=100)
        waited = not second.done()

    assert waited
    assert await second is True


async def test_when_it_is_answered_for_nobody_waits_any_longer(doubts, tag, now):
    await fails(doubts, tag, 5)
    waiting = [asyncio.create_task(in_doubt(doubts, tag)) for _ in range(3)]
    await asyncio.wait(waiting, timeout=0.1)
    began = now()

    doubts.reset(tag)

    assert await asyncio.gather(*waiting) == [False] * 3
    assert now() == began


async def test_one_that_is_over_is_asked_at_once_and_still_with_care(doubts, tag, now):
    await fails(doubts, tag, 5)
    began = now()
    waiting = asyncio.create_task(in_doubt(doubts, tag))
    await asyncio.wait([waiting], timeout=0.1)

    doubts.survey_succeeded(found(tag, ContainerState.EXITED))

    assert await waiting is True
    assert now() - began < 1


async def test_one_that_is_over_and_still_not_answered_for_has_its_pauses_again(doubts, tag, now):
    doubts.survey_succeeded(found(tag, ContainerState.EXITED))
    await goes_unanswered(doubts, tag)
    began = now()

    await goes_unanswered(doubts, tag)

    assert now() - began == pytest.approx(2)


async def test_one_that_still_runs_waits_its_pause(doubts, tag, now):
    began = now()
    waiting = asyncio.create_task(in_doubt(doubts, tag))
    await asyncio.wait([waiting], timeout=0.1)

    doubts.survey_succeeded(found(tag, ContainerState.RUNNING))

    assert await waiting is True
    assert now() - began == pytest.approx(1)


async def test_when_the_engine_as_a_whole_was_silent_all_are_asked_as_soon_as_it_speaks(doubts, tag, now):
    await fails(doubts, tag, 5)
    began = now()
    waiting = asyncio.create_task(in_doubt(doubts, tag))
    doubts.survey_failed()
    await asyncio.wait([waiting], timeout=0.1)

    doubts.survey_succeeded(found(tag, ContainerState.RUNNING))

    assert await waiting is True
    assert now() - began < 1


async def test_one_that_is_not_there_any_more_is_forgotten(doubts, tag):
    doubts.survey_succeeded([])

    assert await in_doubt(doubts, tag) is False
