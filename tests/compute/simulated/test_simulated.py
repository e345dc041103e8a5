"""The simulated engine beyond the contract of the port: scripts, faults and tests' access."""

import asyncio
from contextlib import suppress

import pytest

from batchq.compute.simulated.runtime import LOST_REPLY, NO_EFFECT, Fault
from batchq.domain.container import Resources
from batchq.errors import (
    ContainerGone,
    EngineUnknown,
    ImageMissing,
    ImageUnavailable,
    NameTaken,
    StartRefused,
)
from batchq.ports.runtime import ContainerState, LaunchSpec
from tests.support import builders
from tests.support.containers import launch, output, started, tag_of
from tests.support.scripts import Script

RUNNING, EXITED = ContainerState.RUNNING, ContainerState.EXITED
LONG = Script(seconds=None)


async def state_of(runtime, tag):
    return (await runtime.inspect(tag)).state


async def lasted(runtime, tag):
    """Its exit code, and how many seconds it ran."""
    found = await runtime.inspect(tag)
    return found.exit_code, (found.stopped_at - found.started_at).total_seconds()


async def deaths_within(news, seconds):
    """The deaths that are reported within so many seconds, each with its time."""
    reported = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for it in news:
                reported.append((tag_of(it), loop.time() - began))  # noqa: PERF401 - reports before the timeout count
    return reported


async def test_it_ends_when_its_script_says_so(runtime, clock):
    tag = await started(runtime, Script(seconds=100, exit_code=3))

    await clock.sleep(99)
    assert await state_of(runtime, tag) is RUNNING
    await clock.sleep(1)

    assert await lasted(runtime, tag) == (3, 100)


async def test_without_a_script_it_runs_a_second_and_exits_0(runtime, clock):
    it = launch()
    await runtime.create(LaunchSpec(tag=it.tag, spec=builders.container(), environment=()))
    await runtime.start(it.tag)

    await clock.sleep(5)

    assert await lasted(runtime, it.tag) == (0, 1)


@pytest.mark.parametrize("script", ["nonsense", "[]", '{"second": 1}', '{"seconds": -1}', '{"exit_code": 256}'])
async def test_a_script_that_cannot_be_read_refuses_the_container(runtime, script):
    it = launch()
    spec = builders.container(environment=(("BATCHQ_SIMULATED", script),))

    with pytest.raises(StartRefused, match=r"^CannotCreateContainerError: BATCHQ_SIMULATED: "):
        await runtime.create(LaunchSpec(tag=it.tag, spec=spec, environment=()))

    assert await runtime.survey() == ()


async def test_a_stop_is_heard_after_the_delay_and_a_second_one_changes_nothing(runtime, clock):
    tag = await started(runtime, Script(seconds=None, on_term=7, term_delay=10))
    await runtime.signal_stop(tag)
    await clock.sleep(5)

    await runtime.signal_stop(tag)
    await clock.sleep(20)

    assert await lasted(runtime, tag) == (7, 10)


async def test_it_may_end_by_itself_before_it_heeds_the_stop(runtime, clock):
    tag = await started(runtime, Script(seconds=3, on_term=7, term_delay=10))
    await runtime.signal_stop(tag)

    await clock.sleep(20)

    assert await lasted(runtime, tag) == (0, 3)


async def test_a_slow_death_comes_after_the_kill(runtime, clock):
    tag = await started(runtime, Script(seconds=None, kill_delay=60))
    await runtime.kill(tag)

    await clock.sleep(59)
    assert await state_of(runtime, tag) is RUNNING
    await clock.sleep(1)

    assert await lasted(runtime, tag) == (137, 60)


async def test_a_slow_start_begins_when_it_is_answered(runtime, clock):
    before = clock.now()

    tag = await started(runtime, Script(start_delay=5))

    assert ((await runtime.inspect(tag)).started_at - before).total_seconds() == 5


async def test_one_removed_during_its_slow_start_never_runs(runtime, clock):
    it = launch(Script(start_delay=5))
    await runtime.create(it)
    start = asyncio.create_task(runtime.start(it.tag))
    await clock.sleep(1)

    await runtime.remove(it.tag)

    with pytest.raises(ContainerGone):
        await start


async def test_a_refusal_may_pass(runtime):
    it = launch(Script(refuse="port in use", refusals=2, refuse_certain=False))
    await runtime.create(it)

    for _ in range(2):
        with pytest.raises(StartRefused) as refused:
            await runtime.start(it.tag)
        assert (refused.value.certain, refused.value.exit_code) == (False, 128)
    await runtime.start(it.tag)

    assert await state_of(runtime, it.tag) is RUNNING


async def test_its_containers_go_on_while_nobody_is_there(runtime, clock):
    tag = await started(runtime, Script(seconds=10, exit_code=3))
    await runtime.close()

    await clock.sleep(60)

    assert await lasted(runtime, tag) == (3, 10)


async def test_who_listens_again_hears_of_what_is_to_come_and_not_of_what_was(runtime, clock):
    await started(runtime, Script(seconds=10))
    tag = await started(runtime, Script(seconds=100))
    await runtime.close()
    await clock.sleep(50)

    async with runtime.deaths() as news:
        reported = await deaths_within(news, 100)

    assert reported == [(tag, 50)]


async def test_a_death_is_told_once_though_its_time_was_foretold_twice(runtime):
    tag = await started(runtime, Script(seconds=100, on_term=0, term_delay=10))
    await runtime.signal_stop(tag)

    async with runtime.deaths() as news:
        reported = await deaths_within(news, 500)

    assert reported == [(tag, 10)]


@pytest.mark.parametrize("after", [(), (3.0,), (0.0, 2.0)], ids=["lost", "late", "twice"])
async def test_news_may_be_lost_or_late_or_come_twice(runtime, after):
    runtime.faults.death_delays = after
    tag = await started(runtime, Script(seconds=10))

    async with runtime.deaths() as news:
        reported = await deaths_within(news, 100)

    assert reported == [(tag, 10 + late) for late in after]


async def test_streams_break_without_a_word(runtime):
    async with runtime.deaths() as news:
        runtime.end_subscriptions()

        assert [tag async for tag in news] == []


async def test_a_container_may_vanish(runtime):
    tag = await started(runtime, LONG)

    async with runtime.deaths() as news:
        runtime.remove_externally(tag)

        assert tag_of(await anext(news)) == tag
    assert await runtime.inspect(tag) is None


async def test_a_name_may_be_somebody_elses(runtime):
    it = launch()
    runtime.engine.foreign_names.add(it.tag)

    with pytest.raises(NameTaken):
        await runtime.create(it)

    assert await runtime.survey() == ()


async def test_an_image_that_is_lacking_can_be_pulled(runtime):
    it = launch(image="lacking:1")
    runtime.engine.missing_images["lacking:1"] = None
    with pytest.raises(ImageMissing):
        await runtime.create(it)

    await runtime.pull("lacking:1", None)

    assert (await runtime.create(it)).state is ContainerState.CREATED


async def test_an_image_may_be_lacking_for_ever(runtime):
    runtime.engine.missing_images["lacking:1"] = "no such host"

    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: no such host$"):
        await runtime.pull("lacking:1", None)


async def test_a_call_may_get_no_answer_and_have_done_nothing(runtime):
    it = launch(LONG)
    runtime.faults.plan("create", NO_EFFECT)

    with pytest.raises(EngineUnknown):
        await runtime.create(it)

    assert await runtime.survey() == ()
    assert (await runtime.create(it)).state is ContainerState.CREATED


async def test_a_call_may_get_no_answer_and_have_been_carried_out(runtime):
    it = launch(LONG)
    await runtime.create(it)
    runtime.faults.plan("start", LOST_REPLY)

    with pytest.raises(EngineUnknown):
        await runtime.start(it.tag)

    assert await state_of(runtime, it.tag) is RUNNING


async def test_a_call_may_be_carried_out_long_after_it_was_given_up(runtime, clock):
    it = launch(LONG)
    runtime.faults.plan("create", Fault(takes_effect=True, delay=30))
    with pytest.raises(EngineUnknown):
        await runtime.create(it)
    assert await runtime.survey() == ()

    await clock.sleep(30)

    assert [found.tag for found in await runtime.survey()] == [it.tag]


async def test_a_late_call_is_carried_out_though_batchq_has_gone_meanwhile(runtime, clock):
    it = launch(LONG)
    runtime.faults.plan("create", Fault(takes_effect=True, delay=30))
    with pytest.raises(EngineUnknown):
        await runtime.create(it)
    await runtime.close()

    await clock.sleep(60)

    assert [found.tag for found in await runtime.survey()] == [it.tag]


async def test_so_many_calls_fail_as_were_planned(runtime):
    runtime.faults.plan("survey", NO_EFFECT, times=2)

    answers = await asyncio.gather(*(runtime.survey() for _ in range(4)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [EngineUnknown, EngineUnknown, tuple, tuple]


async def test_a_judge_decides_by_call_and_container(runtime):
    mine, other = launch(), launch()
    runtime.faults.decide = lambda call, tag: NO_EFFECT if (call, tag) == ("create", mine.tag) else None

    with pytest.raises(EngineUnknown):
        await runtime.create(mine)

    assert (await runtime.create(other)).state is ContainerState.CREATED


async def test_an_engine_that_is_away_answers_nothing(runtime):
    runtime.faults.unreachable = True

    for call in (runtime.survey, runtime.capacity, lambda: runtime.create(launch()), lambda: output(runtime, None)):
        with pytest.raises(EngineUnknown):
            await call()
    with pytest.raises(EngineUnknown):
        async with runtime.deaths():
            pass


async def test_it_has_what_it_was_given(runtime):
    assert await runtime.capacity() == Resources(millicpus=4000, memory_mib=4096)
