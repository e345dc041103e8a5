"""Labels of an image are merged by the engine into those of each of its containers. They count for nothing."""

from contextlib import suppress
from uuid import uuid4

import pytest
from docker.errors import NotFound
from msgspec.structs import replace

from batchq.compute.docker import host
from batchq.compute.docker.create_request import SharedNetwork, attempt_name, shared_network_name
from batchq.compute.docker.host import free_gpus
from batchq.compute.docker.network_placement import AttemptNetworks
from batchq.compute.docker.shared_networks import SharedNetworks
from batchq.domain.catalog import Network
from tests.support.containers import docker_runtime, instance_of, launch, new_tag, over, started
from tests.support.scripts import IMAGE, LASTING

pytestmark = [pytest.mark.docker, pytest.mark.fault("SE28")]

VICTIM = new_tag()


@pytest.fixture
def hostile(engine):
    """An image that carries every label by which batchq finds what it made, but those that name its instance."""
    name = f"batchq-hostile:{uuid4().hex[:12]}"
    labels = {
        "io.batchq.environment": "elsewhere",
        "io.batchq.account": "",
        "io.batchq.part": "0/x",
        "io.batchq.gpus": "0",
        "io.batchq.shared-by": f"{VICTIM.job_id}/{VICTIM.attempt}",
        "io.batchq.volume": "scratch",
    }
    made = engine.create_container(IMAGE, ["true"])["Id"]
    repository, _, tag = name.partition(":")
    engine.commit(made, repository, tag, changes=[f'LABEL {label}="{value}"' for label, value in labels.items()])
    engine.remove_container(made)
    yield name
    engine.remove_image(name)


@pytest.fixture
async def runtime(docker_engine, hostile):
    """Its containers are removed before the image is."""
    async with docker_runtime(docker_engine) as spec:
        yield spec


async def test_labels_of_an_image_do_not_change_the_reported_job(runtime, hostile):
    tag = await started(runtime, image=hostile)

    assert (await over(runtime, tag)).exit_code == 0
    assert [container.tag for container in await runtime.survey()] == [tag]


async def test_the_network_of_another_environment_stays_while_a_job_is_on_it(runtime, hostile, engine):
    await started(runtime, LASTING, image=hostile)
    other = replace(launch(LASTING), placed_on="elsewhere", network=Network.SHARED)
    await runtime.create(other)
    await runtime.start(other.tag)

    SharedNetworks(instance_of(runtime), max_idle=0).update(engine)

    holder = shared_network_name(instance_of(runtime), SharedNetwork(environment="elsewhere"))
    assert engine.inspect_container(holder)["State"]["Running"]


async def test_a_label_of_an_image_reserves_no_gpu(runtime, hostile, engine, monkeypatch):
    monkeypatch.setattr(host, "gpu_count", lambda: 2)
    await started(runtime, LASTING, image=hostile)

    assert free_gpus(engine, 1) == ("0",)


async def test_a_label_of_an_image_joins_no_other_attempt(runtime, hostile, engine):
    tag = await started(runtime, LASTING, image=hostile)

    AttemptNetworks(instance_of(runtime)).remove_if_unused(engine, VICTIM)

    assert engine.inspect_container(attempt_name(instance_of(runtime), tag))["State"]["Running"]


@pytest.fixture
async def job(docker_engine):
    """The runtime and the tag of a job's container that runs."""
    async with docker_runtime(docker_engine) as runtime:
        yield runtime, await started(runtime, LASTING)


@pytest.fixture
def copy(job, engine):
    """The id of a container that a person runs from the job's committed container, as to debug the job."""
    runtime, tag = job
    image = f"batchq-copy-{uuid4().hex[:12]}"
    engine.commit(attempt_name(instance_of(runtime), tag), image)
    copied = engine.create_container(image, ["sleep", "1000"], entrypoint=[])["Id"]
    engine.start(copied)
    yield copied
    with suppress(NotFound):
        engine.remove_container(copied, force=True)
    engine.remove_image(image)


async def test_a_container_of_the_committed_image_of_a_job_is_not_the_job(job, copy, engine):
    runtime, tag = job
    engine.remove_container(attempt_name(instance_of(runtime), tag), force=True)

    assert await runtime.survey() == ()
    assert await runtime.inspect(tag) is None
    await runtime.remove(tag)
    assert engine.inspect_container(copy)["State"]["Running"]


async def test_a_container_that_an_administrator_renamed_is_still_that_of_the_job(job, engine, docker_engine):
    runtime, tag = job
    engine.rename(attempt_name(instance_of(runtime), tag), f"renamed-{uuid4().hex[:12]}")

    async with docker_runtime(docker_engine, instance=instance_of(runtime), remove_after=False) as restarted:
        assert [container.tag for container in await restarted.survey()] == [tag]
        assert await restarted.inspect(tag) is not None
