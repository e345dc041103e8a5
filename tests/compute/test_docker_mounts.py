"""Host folders and files in containers: what the engine mounts is what batchq checked. 0030, SE19."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from batchq.compute.docker.create_request import INSTANCE
from batchq.compute.docker.policy import ServerPolicy
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.container import Mount, TextFile
from batchq.errors import ContainerUnusable, ImageMissing, StartRefused
from batchq.ports.runtime import ContainerState
from batchq.settings import Privileged
from tests.support.containers import docker_runtime, instance_of, launch, launched, output, output_of, over
from tests.support.exchange import exchange, exchanging, open_below

pytestmark = pytest.mark.docker
ROUNDS = 3


@pytest.fixture
def lab(tmp_path):
    """The folder of an account, in it a folder and a symlink that leads out of it."""
    secret, folder = tmp_path / "secret", tmp_path / "lab"
    for folder_of_host in (secret, folder / "p"):
        folder_of_host.mkdir(parents=True)
    (secret / "it").write_text("the secret")
    (folder / "p" / "it").write_text("own")
    (folder / "q").symlink_to(secret)
    return folder


@pytest.fixture
def policy(lab):
    return ServerPolicy(privileged=Privileged.REFUSE, volumes=(lab.parent,), given=lambda: [str(lab)])


@pytest.fixture
async def runtime(docker_engine, policy):
    async with docker_runtime(docker_engine, policy=policy) as spec:
        yield spec


def reading(folder, *, command="cat /m/it", **changes):
    mounts = (Mount(container_path="/m", host_path=str(folder), **changes),)
    container = launch(mounts=mounts, command=("sh", "-c", command))
    return replace(
        container, allowances=(ContainerPolicy(volumes=(str(folder.parent),), root=True, host_network=True),)
    )


def volumes(engine):
    return {volume["Name"] for volume in engine.volumes()["Volumes"] or []}


@pytest.mark.fault("SE19")
async def test_a_folder_replaced_by_a_link_after_the_check_is_still_mounted(runtime, engine, lab):
    container = reading(lab / "p", command="cat /m/it; echo new > /m/new")
    before = volumes(engine)
    await runtime.create(container)

    exchange(lab / "p", lab / "q")
    await runtime.start(container.tag)

    await over(runtime, container.tag)
    assert await output(runtime, container.tag) == ["own"]
    await runtime.remove(container.tag)
    assert volumes(engine) <= before
    assert {each.name for each in (lab / "q").iterdir()} == {"it", "new"}
    assert open_below(lab) == []


@pytest.mark.fault("SE19")
async def test_replacing_paths_during_starts_mounts_nothing_forbidden(runtime, lab):
    seen = []
    with exchanging(lab / "p", lab / "q"):
        while len(seen) < ROUNDS:
            container = reading(lab / "p", read_only=True)
            try:
                await runtime.create(container)
                await runtime.start(container.tag)
            except StartRefused:
                await runtime.remove(container.tag)
                continue
            await over(runtime, container.tag)
            seen += await output(runtime, container.tag)

    assert seen == ["own"] * ROUNDS
    assert open_below(lab) == []


@pytest.mark.fault("SE19")
@pytest.mark.parametrize("marked", [True, False], ids=["the attempt names its container", "it does not"])
async def test_a_container_created_before_a_restart_is_created_again(runtime, docker_engine, policy, lab, marked):
    container = reading(lab / "p")
    async with docker_runtime(
        docker_engine, instance=instance_of(runtime), policy=policy, remove_after=False
    ) as before:
        made = await before.create(container)

    if marked:
        with pytest.raises(ContainerUnusable):
            await runtime.create(replace(container, container_id=made.container_id))
    again = await runtime.create(container)
    await runtime.start(container.tag)

    await over(runtime, container.tag)
    assert again.container_id != made.container_id
    assert await output(runtime, container.tag) == ["own"]


async def test_folders_stay_open_until_the_start_is_refused_or_the_container_removed(runtime, lab):
    container = reading(lab / "p")
    container = replace(container, spec=replace(container.spec, command=("/none",)))
    made = await runtime.create(container)
    assert len(open_below(lab)) == 1

    with pytest.raises(StartRefused):
        await runtime.start(container.tag)
    assert open_below(lab) == []

    with pytest.raises(ContainerUnusable):
        await runtime.create(replace(container, container_id=made.container_id))
    again = await runtime.create(container)
    assert again.container_id != made.container_id
    assert len(open_below(lab)) == 1

    await runtime.remove(container.tag)
    assert open_below(lab) == []


@pytest.mark.fault("SE43")
async def test_the_root_directory_of_the_engine_is_never_mounted(docker_engine, engine):
    policy = ServerPolicy(privileged=Privileged.ALLOW, volumes=(Path("/"),))
    async with docker_runtime(docker_engine, policy=policy) as runtime:
        with pytest.raises(StartRefused, match="which no job may mount"):
            await runtime.create(launch(mounts=(Mount(container_path="/m", host_path=engine.info()["DockerRootDir"]),)))


async def test_a_host_path_that_is_created_is_reported_also_after_a_pull(runtime, lab):
    """The first create call finds no image: the path is there when it is called again."""
    container = reading(lab / "typo", command="true", create=True)
    with pytest.raises(ImageMissing):
        await runtime.create(replace(container, spec=replace(container.spec, image="batchq-test:not-there")))

    created = await runtime.create(container)
    later = await runtime.create(reading(lab / "typo", command="true", create=True))

    assert created.created_host_paths == (str(lab / "typo"),)
    assert later.created_host_paths == ()


PATH = "/opt/ml/input/config/hyperparameters.json"
FILES = (TextFile(path=PATH, content='{"name":"\u00e4"}'),)


def shell(*lines):
    return {"command": ("sh", "-c", "; ".join(lines))}


async def test_a_file_is_readable_for_every_user_of_the_container(runtime):
    container = launch(**shell(f"cat {PATH}; echo; ls -l {PATH} | cut -c1-10"), user="1234:1234", files=FILES)

    await runtime.create(container)
    await runtime.start(container.tag)

    assert (await over(runtime, container.tag)).exit_code == 0
    assert await output(runtime, container.tag) == [FILES[0].content, "-rw-r--r--"]


async def test_a_file_is_written_again_after_a_restart_of_the_server(runtime, docker_engine):
    container = launch(**shell(f"cat {PATH}"), files=FILES)
    await runtime.create(container)

    async with docker_runtime(docker_engine, instance=instance_of(runtime)) as again:
        assert (await again.create(container)).state is ContainerState.CREATED
        await again.start(container.tag)
        await over(again, container.tag)

        assert await output(again, container.tag) == [FILES[0].content]


async def test_folders_are_writable_for_every_user_and_those_of_the_host_keep_their_permissions(runtime, lab):
    volume, host = Mount(container_path="/out", host_path=None), Mount(container_path="/out/data", host_path=str(lab))
    folders = ("/new/folder", "/out", "/out/data")
    line = "touch /new/folder/x /out/x; ls -ld /out/data | cut -c1-10"
    before = lab.stat().st_mode

    container = launch(**shell(line), user="1234:1234", mounts=(volume, host), folders=folders)

    assert await output_of(runtime, container) == ["drwxr-xr-x"]
    assert lab.stat().st_mode == before
    assert (await runtime.inspect(container.tag)).exit_code == 0


async def test_a_failure_file_is_read_beside_folders_of_the_host(runtime, engine, lab):
    """The engine cannot mount their descriptors again once the container has started."""
    volume, host = Mount(container_path="/out", host_path=None), Mount(container_path="/out/data", host_path=str(lab))
    members = {"mounts": (volume, host), "folders": ("/out",), "failure_file": "/out/failure"}
    container = launch(**shell("echo it is broken > /out/failure; exit 3"), **members)
    found = await over(runtime, await launched(runtime, container))

    assert (found.exit_code, found.failure) == (3, "it is broken")
    own = engine.containers(all=True, filters={"label": f"{INSTANCE}={instance_of(runtime)}"})
    assert len(own) == 1, "the container that read the volume is removed"


@pytest.mark.fault("SE19", "SE81")
@pytest.mark.parametrize(
    "line", ["ln -s /etc/passwd /out/failure", "mkdir /out/failure", "mkfifo /out/failure", "touch /out/failure"]
)
async def test_a_failure_file_that_is_no_file_with_a_text_is_not_read(runtime, line):
    volume = Mount(container_path="/out", host_path=None)

    container = launch(**shell(line, "exit 3"), mounts=(volume,), folders=("/out",), failure_file="/out/failure")
    found = await over(runtime, await launched(runtime, container))

    assert (found.exit_code, found.failure) == (3, None)


@pytest.mark.parametrize("members", [{"read_only_root": True}, {"files": (TextFile(path="/bin/sh/x", content=""),)}])
async def test_a_file_that_cannot_be_written_fails_the_start(runtime, members):
    container = launch(**({"files": FILES} | members))

    with pytest.raises(StartRefused, match=r"could not be written") as refused:
        await runtime.create(container)
    assert not refused.value.certain
