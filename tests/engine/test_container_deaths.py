"""What the engine reports of a container's death, with an inspection made since, or without."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.ports.runtime import ContainerState, DeathReport, Inspection
from tests.domain.lives import after
from tests.engine.test_executor import Outside, Several

ENDED = [on.ContainerStarted, on.ContainerExited]


@pytest.fixture
async def outside():
    """Its container runs for a second, and that is told."""
    it = Outside(seconds=1, exit_code=3)
    await it.does(do.StartContainer(tag=it.tag))
    it.news.clear()
    return it


async def looked(outside):
    return DeathReport(tag=outside.tag, found=await outside.simulated.inspect(outside.tag))


async def look_answered_after_the_end(outside):
    outside.engine.hold("inspect")
    outside.executor.inspect_again(outside.tag)
    await asyncio.sleep(2)
    outside.executor.on_death(await looked(outside))
    outside.engine.release("inspect")
    await outside.tasks.drain(max_seconds=1000)


def kinds(news):
    return [type(it) for it in news]


async def test_a_death_with_an_inspection_is_reported_without_another_inspection(outside):
    await asyncio.sleep(2)

    outside.executor.on_death(await looked(outside))

    assert kinds(outside.news) == ENDED
    assert (outside.news[-1].exit_code, outside.engine.inspections) == (3, 0)


async def test_a_death_without_an_inspection_causes_an_inspection(outside):
    await asyncio.sleep(2)

    outside.executor.on_death(outside.tag)

    await outside.tasks.drain(max_seconds=1000)
    assert (kinds(outside.news), outside.engine.inspections) == (ENDED, 1)


async def test_an_absent_container_is_lost_after_an_inspection_of_our_own(outside):
    outside.simulated.remove_externally(outside.tag)

    outside.executor.on_death(DeathReport(tag=outside.tag, found=None))

    await outside.tasks.drain(max_seconds=1000)
    assert (outside.news, outside.engine.inspections) == ([on.ContainerLost(attempt=1)], 1)


@pytest.mark.fault("EN11")
async def test_a_container_that_was_started_again_is_reported_as_running(outside):
    outside.executor.on_death(await looked(outside))

    assert (kinds(outside.news), outside.alive) == ([on.ContainerStarted], 1)


async def test_only_the_exit_is_reported_for_a_container_saved_as_running(outside):
    outside.saved[outside.job.id] = after(outside.job, on.ContainerStarted(attempt=1, started_at=outside.clock.now()))
    await asyncio.sleep(2)

    outside.executor.on_death(await looked(outside))

    assert kinds(outside.news) == [on.ContainerExited]


async def test_a_container_that_is_absent_during_its_start_is_not_lost():
    outside = Outside(seconds=60)
    outside.saving.clear()
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)

    outside.executor.on_death(DeathReport(tag=outside.tag, found=None))

    assert outside.news == []
    outside.saving.set()
    await outside.tasks.drain(max_seconds=1000)


async def test_an_exit_before_the_start_is_answered_is_reported():
    outside = Outside(seconds=60)
    outside.engine.hold("start")
    outside.executor.execute(do.StartContainer(tag=outside.tag), outside.job)
    await asyncio.sleep(1)
    ran = Inspection(
        tag=outside.tag,
        state=ContainerState.EXITED,
        started_at=outside.clock.now() - timedelta(seconds=1),
        stopped_at=outside.clock.now(),
        exit_code=0,
    )

    outside.executor.on_death(DeathReport(tag=outside.tag, found=ran))

    assert kinds(outside.news) == ENDED
    outside.engine.release("start")
    await outside.tasks.drain(max_seconds=1000)


@pytest.mark.fault("EN11")
async def test_an_inspection_older_than_the_reported_death_has_no_effect(outside):
    await look_answered_after_the_end(outside)

    assert kinds(outside.news) == [*ENDED, on.ContainerStarted]
    over = after(outside.job, *outside.news[:-1])
    assert after(over, outside.news[-1]) == over


async def test_the_exit_of_one_of_several_containers_is_reported_with_its_name():
    outside = Several(seconds=1)
    await outside.does(do.StartContainer(tag=outside.tag))
    await look_answered_after_the_end(outside)

    assert {it.container_key for it in outside.news} == {"0/app"}
    assert kinds(outside.news) == [on.ContainerStarted, *ENDED, on.ContainerStarted]
    over = after(outside.job, *outside.news[:-1])
    assert after(over, outside.news[-1]) == over


async def test_a_death_of_an_unknown_container_leaves_no_state_behind(outside):
    other = replace(outside.tag, attempt=7)

    outside.executor.on_death(DeathReport(tag=other, found=None))

    await outside.tasks.drain(max_seconds=1000)
    assert outside.news == [on.ContainerLost(attempt=7)]
    assert other not in outside.executor._ops
