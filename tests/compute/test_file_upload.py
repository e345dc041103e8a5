"""Files of a container spec, on a real engine."""

import pytest

from batchq.domain.container import TextFile
from batchq.errors import StartRefused
from batchq.ports.runtime import ContainerState
from tests.support.containers import docker_runtime, instance_of, launch, output, over

pytestmark = pytest.mark.docker

PATH = "/opt/ml/input/config/hyperparameters.json"
FILES = (TextFile(path=PATH, content='{"name":"\u00e4"}'),)


def shell(line):
    return {"command": ("sh", "-c", line)}


async def test_a_file_is_readable_for_every_user_of_the_container(runtime):
    it = launch(**shell(f"cat {PATH}; echo; ls -l {PATH} | cut -c1-10"), user="1234:1234", files=FILES)

    await runtime.create(it)
    await runtime.start(it.tag)

    assert (await over(runtime, it.tag)).exit_code == 0
    assert await output(runtime, it.tag) == [FILES[0].content, "-rw-r--r--"]


async def test_a_file_is_written_again_after_a_restart_of_the_server(runtime, docker_engine):
    it = launch(**shell(f"cat {PATH}"), files=FILES)
    await runtime.create(it)

    async with docker_runtime(docker_engine, instance=instance_of(runtime)) as again:
        assert (await again.create(it)).state is ContainerState.CREATED
        await again.start(it.tag)
        await over(again, it.tag)

        assert await output(again, it.tag) == [FILES[0].content]


@pytest.mark.parametrize("members", [{"read_only_root": True}, {"files": (TextFile(path="/bin/sh/x", content=""),)}])
async def test_a_file_that_cannot_be_written_fails_the_start(runtime, members):
    it = launch(**({"files": FILES} | members))

    with pytest.raises(StartRefused, match=r"could not be written") as refused:
        await runtime.create(it)
    assert not refused.value.certain
