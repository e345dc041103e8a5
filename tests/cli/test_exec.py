"""`batchq exec` against a whole server in this process, with simulated containers."""

import asyncio
import json
import os
import sys

import aiohttp
import pytest

from batchq.audit import Journal
from batchq.compute.simulated.exec_session import SimulatedExecSession
from batchq.server.bootstrap import serving
from batchq.settings import Runtime, Settings
from tests.cli.servers import batchq, ended
from tests.cli.terminal_session import session

pytestmark = pytest.mark.usefixtures("no_input")


@pytest.fixture
def no_input(monkeypatch):
    """Stdin is at its end, as in `batchq exec ... < /dev/null`."""
    null = os.open(os.devnull, os.O_RDONLY)
    saved = os.dup(0)
    os.dup2(null, 0)
    yield
    os.dup2(saved, 0)
    os.close(null)
    os.close(saved)


@pytest.fixture
async def data(tmp_path, monkeypatch):
    data = tmp_path / "data"
    settings = Settings(data=data, port=0, runtime=Runtime.SIMULATED, exec_idle=0.5)
    async with serving(settings) as server:
        monkeypatch.setenv("BATCHQ_URL", server.urls[0])
        yield data


async def started(capfd, name, **script):
    lasting = json.dumps({"seconds": None, "on_term": 0, **script})
    await batchq("submit", "--image", "busybox", "--name", name, "--env", f"BATCHQ_SIMULATED={lasting}", "--", "true")
    async with asyncio.timeout(60):
        while "RUNNING" not in capfd.readouterr().out:
            await batchq("list")


async def test_a_command_prints_its_output_and_gives_its_exit_code(data, capfd):
    await started(capfd, "train", exec_output=["hello", "you"], exec_exit_code=3)

    assert await batchq("exec", "train", "--", "sh", "-c", "true") == 3

    assert capfd.readouterr().out == "hello\nyou\n"
    assert [entry.record.operation for entry in Journal(data).read()[0]] == ["ExecJob"]


async def test_the_end_of_stdin_ends_the_input_of_the_command(data, capfd):
    await started(capfd, "train", exec_echoes=True)

    assert await batchq("exec", "train", "--", "cat") == 0


async def test_input_after_the_end_of_the_input_ends_the_session_with_a_reason(data, capfd, monkeypatch):
    await started(capfd, "train", exec_echoes=True)
    monkeypatch.setattr(SimulatedExecSession, "end_input", stays_open)
    await batchq("list", "-o", "ids")
    url = f"{os.environ['BATCHQ_URL']}/v1/batchq/jobs/{capfd.readouterr().out.strip()}/exec"

    async with aiohttp.ClientSession() as client, client.ws_connect(url) as socket:
        await socket.send_json({"command": ["cat"]})
        await socket.send_json({"end": True})
        await socket.send_bytes(b"more")
        end = await socket.receive_json(timeout=10)

    assert end == {"exitCode": None, "reason": "A message with input arrived after the end of the input."}


async def stays_open(session):
    """In place of `end_input`: the command runs on."""


async def test_refusals_have_the_sentence_of_the_server(data, capfd):
    at_once = 'BATCHQ_SIMULATED={"seconds": 0}'
    await batchq("submit", "--image", "busybox", "--name", "done", "--env", at_once, "--", "true")
    await batchq("wait", "done")
    capfd.readouterr()

    assert await batchq("exec", "done", "--", "sh") == 1
    assert "is SUCCEEDED: a command can only be run in a job that is RUNNING" in capfd.readouterr().err
    assert await ended("exec", "done") == 2
    assert "give a command after --" in capfd.readouterr().err


@pytest.mark.process
async def test_a_session_without_input_and_output_ends_and_the_terminal_is_as_before(data, capfd):
    await started(capfd, "train", exec_echoes=True)
    command = f"{sys.executable} -m batchq exec train -- sh; echo status $?; stty | grep -e -icanon || echo canonical"

    shown = await session("sh", "-c", command, BATCHQ_URL=os.environ["BATCHQ_URL"], steps=[])

    assert shown["screen"] == ["batchq: there was no input and output for 0.5 s", "status 125", "canonical"]
