"""The contract of every runtime for attempts of several containers, with the same scripts for each."""

import asyncio

from msgspec.structs import replace

from batchq.compute.combined_runtime import CombinedRuntime
from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.ports.runtime import ContainerState, Inspection
from tests.contracts.conftest import LONG, QUICK
from tests.support.containers import death_of, left_over, new_tag, output, over, part_of, until
from tests.support.kubernetes import KubernetesRuntime
from tests.support.scripts import Script, contained


async def shared(runtime):
    """The existing networks, on Kubernetes pods, that containers of attempts share."""
    if isinstance(runtime, SimulatedRuntime | CombinedRuntime):
        return list(runtime.engine.networks)
    if isinstance(runtime, KubernetesRuntime):
        return [pod["metadata"]["name"] async for pods in runtime._pods.pages() for pod in pods]
    return [name for name in left_over(None, runtime._instance) if not name.startswith("/")]


async def leaves_shared(runtime, number):
    """Wait until that many are left. A cluster removes a pod some seconds after the request."""

    async def holds():
        return len(await shared(runtime)) == number

    await until(holds)


async def begin(runtime, tag, part, *played, **changes):
    container = part_of(tag, part, *played, **changes)
    await runtime.create(container)
    await runtime.start(container.tag)
    return container.tag


async def task(runtime, *names, script=LONG):
    """The tags of the containers of a task, which run."""
    tag = new_tag()
    return [
        await begin(
            runtime, tag, f"0/{name}", script, beside=tuple(other_name for other_name in names if other_name != name)
        )
        for name in names
    ]


async def gang(runtime, nodes):
    tag = new_tag()
    return [await begin(runtime, tag, f"{node}/default", LONG) for node in range(nodes)]


async def address(runtime, tag):
    return (await runtime.inspect(tag)).address


async def test_a_created_container_has_not_started(runtime):
    container = part_of(new_tag(), "0/main")

    made = await runtime.create(container)
    assert made.state is ContainerState.CREATED
    assert await runtime.create(container) == made
    assert await runtime.survey() == (Inspection(tag=container.tag, state=ContainerState.CREATED),)


async def test_a_survey_distinguishes_the_containers(runtime):
    main, side = await task(runtime, "main", "side")
    await runtime.kill(side)
    await over(runtime, side)

    seen = {found.tag: found.state for found in await runtime.survey()}

    assert seen == {main: ContainerState.RUNNING, side: ContainerState.EXITED}


async def test_a_death_names_its_container(runtime):
    async with runtime.deaths() as deaths:
        main, side = await task(runtime, "main", "side")
        await runtime.kill(side)

        await death_of(deaths, side)

    assert (await runtime.inspect(main)).state is ContainerState.RUNNING


async def test_each_container_has_its_own_log(runtime):
    tag = new_tag()
    one, two = Script(seconds=0, output=("main",)), Script(seconds=0, output=("side",))
    main = await begin(runtime, tag, "0/main", one, beside=(contained("side", two),))
    side = await begin(runtime, tag, "0/side", two, beside=(contained("main", one),))
    await over(runtime, main)
    await over(runtime, side)

    assert await output(runtime, main) == ["main"]
    assert await output(runtime, side) == ["side"]


async def test_the_containers_of_a_node_have_one_address(runtime):
    main, side = await task(runtime, "main", "side")

    assert await address(runtime, main) is not None
    assert await address(runtime, main) == await address(runtime, side)


async def test_each_node_has_its_own_address(runtime):
    tags = await gang(runtime, 3)

    addresses = [await address(runtime, tag) for tag in tags]

    assert None not in addresses
    assert len(set(addresses)) == 3


async def test_only_a_running_container_on_a_network_of_its_attempt_has_an_address(runtime):
    container = part_of(new_tag(), "0/main", QUICK)
    alone = replace(container, tag=new_tag())
    await runtime.create(container)
    assert await address(runtime, container.tag) is None
    await runtime.start(container.tag)
    await runtime.create(alone)
    await runtime.start(alone.tag)

    assert (await over(runtime, container.tag)).address is None
    assert (await over(runtime, alone.tag)).address is None


async def test_the_end_of_one_container_does_not_end_another(runtime):
    main, side = await task(runtime, "main", "side")

    await runtime.signal_stop(main)

    assert (await over(runtime, main)).exit_code == 7
    assert (await runtime.inspect(side)).state is ContainerState.RUNNING


async def test_shared_parts_are_kept_until_the_last_container_is_removed(runtime):
    main, side = await task(runtime, "main", "side")
    before = await address(runtime, side)

    await runtime.remove(main)

    assert await runtime.inspect(main) is None
    assert await address(runtime, side) == before


async def test_shared_parts_are_removed_with_the_last_container(runtime):
    tags = await task(runtime, "main", "side")
    other = await gang(runtime, 1)
    assert len(await shared(runtime)) == 2

    await asyncio.gather(*(runtime.remove(tag) for tag in tags))

    await leaves_shared(runtime, 1)
    assert [found.tag for found in await runtime.survey()] == other


async def test_removing_an_absent_container_is_a_success(runtime):
    (main,) = await gang(runtime, 1)
    await runtime.remove(main)

    await runtime.remove(main)

    await leaves_shared(runtime, 0)


async def test_attempts_share_nothing(runtime):
    tag = new_tag()
    first = await begin(runtime, tag, "0/main", LONG)
    second = await begin(runtime, replace(tag, attempt=2), "0/main", LONG)

    await runtime.remove(first)

    assert (await runtime.inspect(second)).state is ContainerState.RUNNING
    await leaves_shared(runtime, 1)
