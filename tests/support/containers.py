"""Containers for tests of runtimes."""

import asyncio
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from uuid import uuid4

from msgspec.structs import replace

from batchq.compute.docker.containers import Containers
from batchq.compute.docker.create_request import ENVIRONMENT, INSTANCE, shared_network_in
from batchq.compute.docker.network_placement import NetworkPlacement
from batchq.compute.docker.policy import STRICT_POLICY
from batchq.compute.docker.runtime import DockerRuntime
from batchq.compute.secrets import NO_SECRETS
from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.catalog import Network
from batchq.domain.ids import JobId, Tag
from batchq.domain.task import TaskContainer
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import ContainerState, DeathReport, LaunchSpec
from tests.support import scripts
from tests.support.docker_api import docker_api
from tests.support.scripts import Script

PATIENCE = 60.0  # seconds of real time
POLL_INTERVAL = 0.02  # seconds


def instance_of(runtime):
    return runtime._instance


def new_tag(attempt=1):
    return Tag(job_id=JobId(str(uuid4())), attempt=attempt)


def launch(*played, tag=None, **changes):
    """The launch of a container that plays the scripts; members of its spec may be given."""
    tag = tag or new_tag()
    environment = (("AWS_BATCH_JOB_ID", tag.job_id), ("AWS_BATCH_JOB_ATTEMPT", str(tag.attempt)))
    return LaunchSpec(tag=tag, spec=scripts.spec(*(played or (Script(),)), **changes), environment=environment)


async def started(runtime, *played, **changes):
    """The tag of a container that has been started."""
    return await launched(runtime, launch(*played, **changes))


async def launched(runtime, container):
    """The tag of a container that has been created by this launch and started."""
    await runtime.create(container)
    await runtime.start(container.tag)
    return container.tag


async def ended(runtime, *played, **changes):
    """An inspection of a container that has been started and has exited."""
    return await over(runtime, await started(runtime, *played, **changes))


async def over(runtime, tag):
    """An inspection of a container once it has exited."""

    async def is_over():
        found = await runtime.inspect(tag)
        return found is not None and found.state is ContainerState.EXITED

    await until(is_over)
    return await runtime.inspect(tag)


async def output_of(runtime, value):
    """The output of a container of this launch, once it has exited."""
    tag = await launched(runtime, value)
    await over(runtime, tag)
    return await output(runtime, tag)


async def output(runtime, tag, after=0):
    return [line.message async for line in runtime.logs(tag, after=after)]


async def wait_for_line(runtime, tag, message):
    """Wait until the container has written a line."""

    async def is_written():
        return message in await output(runtime, tag)

    await until(is_written)


async def until_answered(call):
    """The result of the call, repeated while the engine times out."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except RuntimeUnknown:
                await asyncio.sleep(POLL_INTERVAL)


async def death_of(deaths, tag):
    """Wait for the event that reports the death of a container."""
    async with asyncio.timeout(PATIENCE):
        while (spec := await anext(deaths)) and tag_of(spec) != tag:
            pass
    return spec


def tag_of(death):
    """The tag of a death event, with or without an inspection."""
    return death.tag if isinstance(death, DeathReport) else death


async def until(holds):
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 - an engine sets no event
            await asyncio.sleep(POLL_INTERVAL)


@asynccontextmanager
async def docker_runtime(base_url, *, remove_after=True, **options):
    """A runtime with an instance of its own. At the end its containers and shared objects are removed."""
    usual = {"instance": f"t{uuid4().hex[:12]}", "base_url": base_url, "network": Network.HOST}
    runtime = DockerRuntime(**usual | options)
    try:
        yield runtime
    finally:
        for found in await until_answered(runtime.survey) if remove_after else ():
            await until_answered(partial(runtime.remove, found.tag))
        await runtime.close()
    if remove_after:
        await leaves_nothing(base_url, runtime._instance)


def containers_of(instance, **changes):
    """The containers of an instance, whose methods are called with a fake client."""
    usual = {
        "policy": STRICT_POLICY,
        "secrets": NO_SECRETS,
        "placement": NetworkPlacement(instance, Network.BRIDGE),
        "lost_before": lambda _: None,
        "shares_files": lambda: True,
    }
    return Containers(instance=instance, **usual | changes)


def part_of(tag, part, *played, beside=(), share_ipc=False, share_pids=False, **changes):
    """The launch of one container of an attempt that has several. A name in `beside` is a container with this spec."""
    container = launch(*played, tag=replace(tag, container_key=part), **changes)
    beside = tuple(
        TaskContainer(name=other, spec=container.spec) if isinstance(other, str) else other for other in beside
    )
    return replace(container, beside=beside, share_ipc=share_ipc, share_pids=share_pids)


async def leaves_nothing(base_url, instance):
    """Assert that nothing of the instance is left; a slow engine may still be removing it."""

    async def gone():
        return left_over(base_url, instance) == []

    with suppress(TimeoutError):
        await until(gone)
    assert left_over(base_url, instance) == []


def left_over(base_url, instance):
    """The names of all objects with the instance's label. Without an address the engine is that of DOCKER_HOST."""
    labelled = {"label": f"{INSTANCE}={instance}"}
    with _engine(base_url) as client:
        volumes = client.volumes(filters=labelled)["Volumes"] or []
        containers = client.containers(all=True, filters=labelled)
        named = [*(container["Names"][0] for container in containers), *client.networks(filters=labelled), *volumes]
    return [item if isinstance(item, str) else item["Name"] for item in named]


def pause_container_ids(runtime):
    """The ids of the pause containers of shared networks that run, by compute environment and account."""
    if isinstance(runtime, SimulatedRuntime):
        return dict(runtime.engine.pause_containers)
    with _engine() as client:
        rows = client.containers(filters={"label": [f"{INSTANCE}={runtime._instance}", ENVIRONMENT]})
        found = {shared_network_in(row["Labels"], runtime._instance): row["Id"] for row in rows}
        return {(key.environment, key.account): container for key, container in found.items() if key is not None}


def remove_pause_containers(runtime, environment="local"):
    """The pause containers of an environment die."""
    if isinstance(runtime, SimulatedRuntime):
        for shared in [container for container in runtime.engine.pause_containers if container[0] == environment]:
            del runtime.engine.pause_containers[shared]
        return
    with _engine() as client:
        for (of, _), container in pause_container_ids(runtime).items():
            if of == environment:
                client.remove_container(container, force=True)


@contextmanager
def _engine(base_url=None):
    with closing(docker_api(base_url)) as client:
        yield client


# Each call of a runtime that reaches the engine, except the stream of deaths.
RUNTIME_CALLS = {
    "create": lambda runtime: runtime.create(launch()),
    "pull": lambda runtime: runtime.pull("none:latest", None),
    "start": lambda runtime: runtime.start(new_tag()),
    "signal_stop": lambda runtime: runtime.signal_stop(new_tag()),
    "kill": lambda runtime: runtime.kill(new_tag()),
    "remove": lambda runtime: runtime.remove(new_tag()),
    "remove_silent": lambda runtime: runtime.remove_silent(new_tag()),
    "inspect": lambda runtime: runtime.inspect(new_tag()),
    "survey": lambda runtime: runtime.survey(),
    "machines": lambda runtime: runtime.machines(),
    "logs": lambda runtime: output(runtime, new_tag()),
}
