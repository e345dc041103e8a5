"""Real pulls, from a registry of the test's own."""

import asyncio
import base64
import json
from contextlib import closing
from functools import partial

import pytest

from batchq.compute.docker.operation_pools import Limits
from batchq.errors import ImageMissing, ImageUnavailable
from batchq.ports.runtime import ContainerState
from tests.support.containers import docker_runtime, ended, launch, output, until
from tests.support.docker_api import docker_api
from tests.support.registry import LAYER, MANIFEST, NAMES, PASSWORD, USER, registry
from tests.support.scripts import IMAGE, Script

pytestmark = pytest.mark.docker

QUICK = Script(seconds=0, output=("one",))
FEW = Limits(create=1, start=1, inspect=1, pull=1)


@pytest.fixture
async def runtime(docker_engine):
    async with docker_runtime(docker_engine, limits=FEW) as spec:
        yield spec


@pytest.fixture
async def images(docker_engine):
    async with registry(docker_engine) as spec:
        yield spec


@pytest.fixture
async def private(docker_engine):
    async with registry(docker_engine, private=True) as spec:
        yield spec


@pytest.fixture(autouse=True)
def log_in(monkeypatch, tmp_path):
    """Writes docker's config, which is empty at first."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    config = tmp_path / "config.json"
    config.write_text("{}")

    def write(images, user=USER, password=PASSWORD):
        auth = base64.b64encode(f"{user}:{password}".encode()).decode()
        config.write_text(json.dumps({"auths": {images.address: {"auth": auth}}}))

    write.config = config
    return write


async def test_an_absent_image_is_pulled_and_runs(runtime, images):
    container = launch(QUICK, image=images.image())
    with pytest.raises(ImageMissing):
        await runtime.create(container)

    await runtime.pull(images.image(), None)

    found = await ended(runtime, QUICK, image=images.image())
    assert await output(runtime, found.tag) == ["one"]


async def test_concurrent_pulls_of_an_image_are_one(runtime, images):
    await asyncio.gather(*(runtime.pull(images.image(), None) for _ in range(20)))

    assert (images.requests[MANIFEST], images.requests[LAYER]) == (1, 1)


async def test_a_caller_that_gives_up_leaves_the_pull_to_the_others(runtime, images):
    images.open.clear()
    impatient, patient = (asyncio.create_task(runtime.pull(images.image(), None)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    images.open.set()

    await patient

    assert images.requests[LAYER] == 1


@pytest.mark.fault("SE23")
async def test_a_pull_that_is_abandoned_is_stopped_by_the_engine(runtime, images):
    images.drips = True
    pull = asyncio.create_task(runtime.pull(images.image(), None))

    async def counted(what):
        return images.requests[what] > 0

    await until(partial(counted, LAYER))
    pull.cancel()

    await until(partial(counted, "disconnected"))


@pytest.mark.fault("EN19")
async def test_a_slow_pull_delays_nothing_else(runtime, images):
    images.open.clear()
    slow = asyncio.create_task(runtime.pull(images.image(), None))

    found = await ended(runtime, QUICK)

    assert found.exit_code == 0
    assert not slow.done()
    images.open.set()
    await slow


@pytest.mark.fault("EN19")
async def test_an_image_that_the_registry_does_not_have_is_reported(runtime, images):
    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: .*(not found|no such image)"):
        await runtime.pull(f"{images.address}/none:latest", None)


@pytest.mark.fault("EN19")
@pytest.mark.parametrize("registry", ["127.0.0.1:1", "batchq-test.invalid"], ids=["refuses", "has no name"])
async def test_an_image_of_an_absent_registry_cannot_be_pulled(runtime, registry):
    with pytest.raises(ImageUnavailable, match=rf"^CannotPullContainerError: .*{registry}"):
        await runtime.pull(f"{registry}/someone/app:v1", None)


@pytest.mark.parametrize("repository", ["127.0.0.1:1/none/private", "batchq-test.invalid/team/app", "batchq/test-here"])
async def test_an_existing_image_is_never_pulled(runtime, docker_engine, repository):
    with closing(docker_api(docker_engine)) as engine:
        engine.tag(IMAGE, repository, "v1")
        try:
            assert (await runtime.create(launch(image=f"{repository}:v1"))).state is ContainerState.CREATED
        finally:
            engine.remove_image(f"{repository}:v1", force=True)


async def test_a_private_registry_gets_the_credentials_of_the_docker_config(runtime, private, log_in):
    log_in(private)

    await runtime.pull(private.image(), None)

    assert private.requests[LAYER] == 1


@pytest.mark.fault("EN19")
async def test_without_credentials_a_private_image_cannot_be_pulled(runtime, private):
    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: .*no basic auth credentials"):
        await runtime.pull(private.image(), None)


@pytest.mark.fault("EN19")
async def test_wrong_credentials_fail_the_pull_and_are_not_reported(runtime, private, log_in):
    log_in(private, password="wr0ng-one")

    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: ") as refused:
        await runtime.pull(private.image(), None)

    assert "wr0ng-one" not in str(refused.value)


async def test_credentials_added_later_are_used_without_a_restart(runtime, private, log_in):
    log_in(private, password="expired")
    with pytest.raises(ImageUnavailable):
        await runtime.pull(private.image(), None)

    log_in(private)

    await runtime.pull(private.image(NAMES[1]), None)


@pytest.mark.filterwarnings("ignore:docker-credential")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"credsStore": "batchq-has-none"}, "docker-credential-batchq-has-none"),
        ({"auths": {"a": "text"}}, "docker's config cannot be read"),
        ({"auths": {"a": {"auth": "bm8tY29sb24="}}}, "docker's config cannot be read"),
        ([], "docker's config cannot be read"),
    ],
)
async def test_an_invalid_docker_config_is_the_reason_of_a_failed_pull(runtime, images, log_in, config, words):
    log_in.config.write_text(json.dumps(config))

    with pytest.raises(ImageUnavailable, match=f"^CannotPullContainerError: .*{words}"):
        await runtime.pull(images.image(), None)

    log_in.config.write_text("{}")  # the test's own clients read it too
