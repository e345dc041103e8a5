"""Commands in running containers: the contract of every runtime that runs them."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.compute.docker.exec_session import DockerExecSession
from batchq.errors import ContainerGone, ExecRefused, RuntimeUnknown
from batchq.ports.exec_session import ExecCommand, OutputStream, TerminalSize
from batchq.ports.runtime import ContainerState
from tests.contracts.conftest import CLUSTER, LONG, QUICK
from tests.support.containers import PATIENCE, ended, output, started

WRITES = ExecCommand(command=("sh", "-c", "echo hello; exit 3"))
READS = ExecCommand(command=("cat",))
ECHO = replace(LONG, exec_echoes=True)

runs_commands = pytest.mark.parametrize(
    "runtime", ["simulated", "combined", pytest.param("docker", marks=pytest.mark.docker)], indirect=True
)


async def all_output(session):
    content = b""
    while (part := await session.read()) is not None:
        assert part.stream is OutputStream.STDOUT
        content += part.content
    return content


async def no_command_runs(runtime, tag):
    """Wait until no `sleep 77777` runs in the container."""
    wait = "while grep -q 7777[7] /proc/[0-9]*/cmdline; do sleep 0.1; done 2>/dev/null"
    watching = await runtime.exec(tag, ExecCommand(command=("sh", "-c", wait)))
    async with asyncio.timeout(PATIENCE):
        assert await watching.read() is None
    await watching.close()


@runs_commands
async def test_a_command_has_output_and_an_exit_code_and_leaves_the_container_as_before(runtime):
    tag = await started(runtime, replace(LONG, exec_output=("hello",), exec_exit_code=3))
    before = await runtime.inspect(tag)

    session = await runtime.exec(tag, WRITES)

    assert await all_output(session) == b"hello\n"
    assert await session.exit_code() == 3
    await session.close()
    assert await runtime.inspect(tag) == before
    assert "hello" not in await output(runtime, tag)


@runs_commands
async def test_a_command_reads_its_input_until_the_end_of_it(runtime):
    session = await runtime.exec(await started(runtime, ECHO), READS)

    await session.write(b"one\n")
    first = await session.read()
    await session.end_input()

    assert first.content == b"one\n"
    assert await session.read() is None
    assert await session.exit_code() == 0
    await session.close()


@runs_commands
async def test_a_command_with_a_terminal_has_its_size(runtime):
    script = replace(LONG, exec_output=("24 80",))
    size = ExecCommand(command=("sh", "-c", "sleep 1; stty size"), terminal=TerminalSize(rows=24, columns=80))

    session = await runtime.exec(await started(runtime, script), size)

    assert (await all_output(session)).split() == [b"24", b"80"]
    await session.close()


@runs_commands
async def test_a_command_ends_with_its_container(runtime):
    tag = await started(runtime, ECHO)
    session = await runtime.exec(tag, READS)
    await session.write(b"begun\n")
    assert (await session.read()).content == b"begun\n"

    await runtime.kill(tag)

    assert await session.read() is None
    await session.close()


@runs_commands
async def test_no_command_runs_in_a_container_that_has_ended(runtime):
    tag = (await ended(runtime, QUICK)).tag

    with pytest.raises(ContainerGone):
        await runtime.exec(tag, READS)


@pytest.mark.parametrize("runtime", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True)
async def test_the_processes_of_a_closed_session_end_and_the_container_runs_on(runtime):
    tag = await started(runtime, LONG)
    session = await runtime.exec(tag, ExecCommand(command=("sh", "-c", "sleep 77777 & echo begun; sleep 77777")))
    assert (await session.read()).content == b"begun\n"

    await session.close()

    await no_command_runs(runtime, tag)
    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING


@pytest.mark.parametrize("runtime", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True)
async def test_a_command_ends_whose_session_is_not_opened(runtime, monkeypatch):
    """As by an engine that is too slow for the size of the terminal: no client knows the command."""
    tag = await started(runtime, LONG)

    async def resize(_session, _size):
        raise RuntimeUnknown("exec: Read timed out")

    monkeypatch.setattr(DockerExecSession, "resize", resize)
    command = ExecCommand(command=("sh", "-c", "sleep 77777"), terminal=TerminalSize(rows=24, columns=80))
    with pytest.raises(RuntimeUnknown):
        await runtime.exec(tag, command)

    await no_command_runs(runtime, tag)


@pytest.mark.parametrize("runtime", ["kubernetes", CLUSTER], indirect=True)
async def test_a_command_in_a_pod_is_refused_with_the_command_of_kubectl(runtime):
    tag = await started(runtime, LONG)

    with pytest.raises(ExecRefused, match=r"kubectl exec -it -n \S+ \S+ -c \S+ -- COMMAND"):
        await runtime.exec(tag, READS)
