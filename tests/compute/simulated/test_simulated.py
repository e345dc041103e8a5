"""The simulated engine beyond the contract of the port: scripts, faults, and what other clients of an engine do."""

import asyncio
from contextlib import suppress

import pytest

from batchq.compute.simulated.runtime import LOST_REPLY, NO_EFFECT, Fault
from batchq.errors import ContainerGone, NameTaken, RuntimeUnknown, StartRefused
from batchq.ports.runtime import ContainerState, LaunchSpec
from tests.support import builders
from tests.support.containers import launch, output, started, tag_of
from tests.support.scripts import Script

RUNNING = ContainerState.RUNNING
LONG = Script(seconds=None)
LATE = Fault(takes_effect=True, delay=30)


async def lasted(runtime, tag):
    """The container's exit code, and how many seconds it ran."""
    found = await runtime.inspect(tag)
    return found.exit_code, (found.stopped_at - found.started_at).total_seconds()


async def deaths_within(deaths, seconds):
    """The deaths that are reported within so many seconds, each with its time."""
    reported = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for death in deaths:
                reported.append((tag_of(death), loop.time() - began))  # noqa: PERF401 - reports before the timeout count
    return reported


@pytest.mark.parametrize(
    ("script", "calls", "end"),
    [
        (Script(seconds=100, exit_code=3), [], (3, 100)),
        (Script(seconds=None, on_term=7, term_delay=10), ["signal_stop", "signal_stop"], (7, 10)),
        (Script(seconds=3, on_term=7, term_delay=10), ["signal_stop"], (0, 3)),
        (Script(seconds=None, kill_delay=60), ["kill"], (137, 60)),
    ],
    ids=["by itself", "after a stop signal, repeated", "by itself after a stop signal", "after a kill"],
)
async def test_a_container_ends_as_its_script_determines(runtime, clock, script, calls, end):
    tag = await started(runtime, script)
    for call in calls:
        await getattr(runtime, call)(tag)
        await clock.sleep(0.5)

    await clock.sleep(end[1] - 0.5 * len(calls) - 0.1)
    assert (await runtime.inspect(tag)).state is RUNNING
    await clock.sleep(0.1)

    assert await lasted(runtime, tag) == end


async def test_without_a_script_it_runs_a_second_and_exits_0(runtime, clock):
    container = launch()
    await runtime.create(LaunchSpec(tag=container.tag, spec=builders.container(), environment=()))
    await runtime.start(container.tag)

    await clock.sleep(5)

    assert await lasted(runtime, container.tag) == (0, 1)


@pytest.mark.parametrize("script", ["nonsense", "[]", '{"second": 1}', '{"seconds": -1}', '{"exit_code": 256}'])
async def test_an_invalid_script_refuses_the_container(runtime, script):
    container = launch()
    spec = builders.container(environment=(("BATCHQ_SIMULATED", script),))

    with pytest.raises(StartRefused, match=r"^CannotCreateContainerError: BATCHQ_SIMULATED: "):
        await runtime.create(LaunchSpec(tag=container.tag, spec=spec, environment=()))

    assert await runtime.survey() == ()


async def test_a_slow_start_begins_when_its_reply_is_sent(runtime, clock):
    before = clock.now()

    tag = await started(runtime, Script(start_delay=5))

    assert ((await runtime.inspect(tag)).started_at - before).total_seconds() == 5


async def test_a_container_removed_during_its_slow_start_never_runs(runtime, clock):
    container = launch(Script(start_delay=5))
    await runtime.create(container)
    start = asyncio.create_task(runtime.start(container.tag))
    await clock.sleep(1)

    await runtime.remove(container.tag)

    with pytest.raises(ContainerGone):
        await start


async def test_a_start_may_be_refused_a_number_of_times(runtime):
    container = launch(Script(refuse="port in use", refusals=2, refuse_certain=False))
    await runtime.create(container)

    for _ in range(2):
        with pytest.raises(StartRefused) as refused:
            await runtime.start(container.tag)
        assert (refused.value.certain, refused.value.exit_code) == (False, 128)
    await runtime.start(container.tag)

    assert (await runtime.inspect(container.tag)).state is RUNNING


async def test_containers_continue_after_the_runtime_is_closed(runtime, clock):
    tag = await started(runtime, Script(seconds=10, exit_code=3))
    await runtime.close()

    await clock.sleep(60)

    assert await lasted(runtime, tag) == (3, 10)


async def test_a_new_subscription_reports_later_deaths_only(runtime, clock):
    await started(runtime, Script(seconds=10))
    tag = await started(runtime, Script(seconds=100))
    await runtime.close()
    await clock.sleep(50)

    async with runtime.deaths() as deaths:
        assert await deaths_within(deaths, 100) == [(tag, 50)]


async def test_a_death_is_reported_once_at_its_last_scheduled_time(runtime):
    tag = await started(runtime, Script(seconds=100, on_term=0, term_delay=10))
    await runtime.signal_stop(tag)

    async with runtime.deaths() as deaths:
        assert await deaths_within(deaths, 500) == [(tag, 10)]


@pytest.mark.parametrize("after", [(), (3.0,), (0.0, 2.0)], ids=["lost", "late", "twice"])
async def test_death_reports_may_be_lost_late_or_repeated(runtime, after):
    runtime.faults.death_delays = after
    tag = await started(runtime, Script(seconds=10))

    async with runtime.deaths() as deaths:
        assert await deaths_within(deaths, 100) == [(tag, 10 + late) for late in after]


async def test_subscriptions_end_without_an_error(runtime):
    async with runtime.deaths() as deaths:
        runtime.end_subscriptions()

        assert [tag async for tag in deaths] == []


async def test_a_container_name_may_be_in_foreign_use(runtime):
    container = launch()
    runtime.engine.foreign_names.add(container.tag)

    with pytest.raises(NameTaken):
        await runtime.create(container)

    assert await runtime.survey() == ()


async def test_planned_calls_fail_without_effect(runtime):
    container = launch(LONG)
    runtime.faults.plan("create", NO_EFFECT, times=2)

    for _ in range(2):
        with pytest.raises(RuntimeUnknown):
            await runtime.create(container)

    assert await runtime.survey() == ()
    assert (await runtime.create(container)).state is ContainerState.CREATED


async def test_a_call_may_take_effect_without_a_reply(runtime):
    container = launch(LONG)
    await runtime.create(container)
    runtime.faults.plan("start", LOST_REPLY)

    with pytest.raises(RuntimeUnknown):
        await runtime.start(container.tag)

    assert (await runtime.inspect(container.tag)).state is RUNNING


@pytest.mark.parametrize("closes", [False, True])
async def test_a_call_may_take_effect_late_even_after_the_runtime_is_closed(runtime, clock, closes):
    container = launch(LONG)
    runtime.faults.plan("create", LATE)
    with pytest.raises(RuntimeUnknown):
        await runtime.create(container)
    assert await runtime.survey() == ()
    if closes:
        await runtime.close()

    await clock.sleep(30)

    assert [found.tag for found in await runtime.survey()] == [container.tag]


async def test_no_call_to_an_unreachable_engine_succeeds(runtime):
    runtime.faults.unreachable = True

    for call in (runtime.survey, runtime.machines, lambda: runtime.create(launch()), lambda: output(runtime, None)):
        with pytest.raises(RuntimeUnknown):
            await call()
    with pytest.raises(RuntimeUnknown):
        async with runtime.deaths():
            pass
