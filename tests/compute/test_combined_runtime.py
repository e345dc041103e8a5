"""Two simulated engines as one runtime: where calls go, and what an engine that does not answer proves."""

import pytest
from msgspec.structs import replace

from batchq.compute.combined_runtime import CombinedRuntime
from batchq.domain.container import Resources
from batchq.domain.machines import LOCAL, Machine
from batchq.errors import (
    ContainerGone,
    ImageMissing,
    RuntimeUnreachable,
    StartInterrupted,
)
from batchq.system.clock import SystemClock
from tests.support.combined import HERE, NODE, THERE, two_engines
from tests.support.containers import launch, launched, new_tag, started
from tests.support.scripts import Script

HOST = Resources(millicpus=4000, memory_mib=4096)
LONG = Script(seconds=None)


@pytest.fixture
async def runtime():
    runtime = two_engines(SystemClock(), HOST)
    await runtime.survey()
    yield runtime
    await runtime.close()


def _on(machine):
    return replace(launch(LONG), machine=machine)


def in_another_process(runtime):
    """The same engines as one runtime that has not asked them yet."""
    return CombinedRuntime({HERE: runtime.first, THERE: runtime.second}, SystemClock())


async def test_a_container_of_an_earlier_process_is_found_on_its_engine(runtime):
    tag = await started(runtime, LONG)
    again = in_another_process(runtime)

    await again.kill(tag)

    assert (await runtime.inspect(tag)).exit_code == 137


async def test_the_engine_of_a_container_decides_whether_its_log_is_followed(runtime):
    followed = object()

    async def follow(_tag, *, after):
        return followed

    runtime.second.follow = follow
    here, there = await launched(runtime, _on(LOCAL)), await launched(runtime, _on(NODE))

    assert await runtime.follow(here, after=0) is None
    assert await runtime.follow(there, after=0) is followed


async def test_an_engine_that_has_not_answered_proves_no_absence(runtime):
    again = in_another_process(runtime)
    runtime.second.faults.unreachable = True
    await again.survey()

    for call in (again.inspect, again.kill, again.remove):
        with pytest.raises(RuntimeUnreachable, match="an engine that does not answer: kubernetes"):
            await call(new_tag())

    runtime.second.faults.unreachable = False
    await again.survey()
    assert await again.inspect(new_tag()) is None
    with pytest.raises(ContainerGone):
        await again.kill(new_tag())


async def test_a_container_is_not_created_on_a_machine_of_an_unknown_engine(runtime):
    again = in_another_process(runtime)
    runtime.second.faults.unreachable = True
    await again.survey()

    with pytest.raises(RuntimeUnreachable, match="machine n1 has not answered yet"):
        await again.create(_on(NODE))

    runtime.second.faults.unreachable = False
    await again.survey()
    with pytest.raises(StartInterrupted, match="machine n2 belongs to no container engine"):
        await again.create(_on("n2"))


async def test_an_image_is_pulled_for_the_engine_that_lacks_it(runtime):
    runtime.first.engine.missing_images["far/away:1"] = runtime.second.engine.missing_images["far/away:1"] = None
    with pytest.raises(ImageMissing):
        await runtime.create(launch(LONG, image="far/away:1"))

    await runtime.pull("far/away:1", None)

    assert "far/away:1" not in runtime.second.engine.missing_images
    assert "far/away:1" in runtime.first.engine.missing_images


async def test_a_name_that_machines_of_two_engines_have_is_used_once(runtime, caplog):
    runtime.second.engine.machines = (Machine(name=LOCAL, resources=HOST, is_enforced=True),)
    await runtime.survey()

    machines = await runtime.machines()

    assert [(machine.name, machine.engine) for machine in machines] == [(LOCAL, HERE)]
    assert "machine local of kubernetes is ignored" in caplog.text


async def test_the_identity_names_each_engine_that_answers(runtime):
    assert (await runtime.identity()).id == "docker=first kubernetes=second"

    runtime.first.faults.unreachable = True
    await runtime.survey()

    assert (await runtime.identity()).id == "kubernetes=second"
