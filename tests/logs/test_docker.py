"""Logs of real containers, captured while they run and after their end."""

import asyncio
from contextlib import closing
from datetime import timedelta

import pytest

from batchq.domain.container import ContainerSpec, Resources
from batchq.logs.capture import LogCapture
from batchq.ports.runtime import LaunchSpec
from batchq.store.log_files import LogFiles
from batchq.system.clock import SystemClock
from tests.support.builders import IMAGE
from tests.support.containers import docker_runtime, new_tag, over, until
from tests.support.stubs import UNLIMITED

pytestmark = pytest.mark.docker

ALL = 10**9


class Container:
    """A container that runs a shell script, and its stored output."""

    def __init__(self, runtime, files):
        self.runtime = runtime
        self.capture = LogCapture(archive=files, runtime=runtime, clock=SystemClock(), quota=UNLIMITED)
        self.tag = new_tag()
        self._files = files

    async def run(self, script):
        spec = ContainerSpec(
            image=IMAGE, command=("sh", "-c", script), resources=Resources(millicpus=1000, memory_mib=64)
        )
        await self.runtime.create(LaunchSpec(tag=self.tag, spec=spec, environment=()))
        await self.runtime.start(self.tag)

    async def is_over(self):
        found = await self.runtime.inspect(self.tag)
        return found is not None and found.stopped_at is not None

    async def lines(self):
        page = await self._files.read(self.tag.log_id, position=0, limit=ALL, max_bytes=ALL)
        return [line.message for line in page.lines]


@pytest.fixture
async def container(docker_engine, tmp_path):
    asyncio.get_running_loop().live_really()
    async with docker_runtime(docker_engine) as runtime:
        with closing(LogFiles(tmp_path / "logs")) as files:
            yield Container(runtime, files)


async def test_lines_of_a_writing_container_are_stored_once(container):
    await container.run(
        "n=0; while [ $n -lt 3000 ]; do echo out $n; n=$((n+1)); done & "
        "n=0; while [ $n -lt 3000 ]; do echo err $n >&2; n=$((n+1)); done; wait"
    )

    async def read_until_it_is_over():
        await container.capture.copy_new(container.tag, max_age=timedelta(0))
        return await container.is_over()

    await until(read_until_it_is_over)
    await container.capture.capture(container.tag)

    lines = await container.lines()
    assert [line for line in lines if line.startswith("out")] == [f"out {number}" for number in range(3000)]
    assert [line for line in lines if line.startswith("err")] == [f"err {number}" for number in range(3000)]
    assert len(lines) == 6000


async def test_an_unfinished_line_is_completed_later(container):
    bar = 3000 * "12345678"
    await container.run(
        "trap 'echo the rest; exit 0' TERM; n=0; while [ $n -lt 3000 ]; do printf 12345678; n=$((n+1)); done; "
        "sleep 1.2; echo ready >&2; while true; do sleep 0.05; done"
    )

    async def is_ready():
        await container.capture.copy_new(container.tag, max_age=timedelta(0))
        return "ready" in await container.lines()

    await until(is_ready)
    await container.runtime.signal_stop(container.tag)
    await over(container.runtime, container.tag)
    await container.capture.capture(container.tag)
    await container.capture.capture(container.tag)

    lines = await container.lines()
    assert "".join(line for line in lines if line != "ready") == bar + "the rest"
    assert len(lines) > 2


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("printf unfinished", "unfinished"),
        (r"printf 'a\rb\r\n'", "a\rb"),
        (r"printf '\000\001\377\n'", "\0\x01\ufffd"),
        ("head -c 1000000 /dev/zero | tr '\\0' x; echo", "x" * 1_000_000),
    ],
    ids=["no end", "carriage returns", "binary", "a megabyte"],
)
async def test_unusual_lines_are_stored(container, script, message):
    await container.run(script)
    await over(container.runtime, container.tag)

    await container.capture.capture(container.tag)
    await container.capture.capture(container.tag)

    assert "".join(await container.lines()) == message
