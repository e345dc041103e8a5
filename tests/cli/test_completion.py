"""Completion in a real bash, by the script of `batchq completion bash`; without a terminal."""

import asyncio
import os
import sys
from contextlib import closing
from socket import create_server

import pytest

from batchq.cli.main import main
from tests.cli.responses import AT
from tests.cli.servers import job_id, row

SCRIPT = """
eval "$(batchq completion bash)"
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
COMP_WORDS=($COMP_LINE)
_python_argcomplete batchq
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(tmp_path):
    """The completions of a line, and what is printed on stderr."""
    command = tmp_path / "batchq"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m batchq "$@"\n')
    command.chmod(0o700)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    async def completions(line, **more):
        piped = asyncio.subprocess.PIPE
        bash = await asyncio.create_subprocess_exec(
            "bash", "-c", SCRIPT, "bash", line, env=os.environ | environment | more, stdout=piped, stderr=piped
        )
        out, err = await bash.communicate()
        return sorted(out.decode().split()), err.decode()

    return completions


@pytest.fixture
def catalog(native):
    native.rows = [row(), row("sim", jobId=job_id("77ab01c9"))]
    native.groups = [
        {
            "groupId": "g-8f2c51a7",
            "groupName": "fit",
            "user": "ada",
            "account": "lab",
            "createdAt": AT,
            "size": 2,
            "submitted": 2,
            "statusSummary": {},
        }
    ]
    native.responses |= {
        "/v1/describejobqueues": {
            "jobQueues": [{"jobQueueName": name, "state": "ENABLED", "priority": 1} for name in ("default", "gpu")]
        },
        "/v1/describejobdefinitions": {"jobDefinitions": [{"jobDefinitionName": "train", "revision": 1}]},
    }
    return native


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("batchq lis", ["list"]),
        ("batchq list --sin", ["--since"]),
        ("batchq list -t RUNN", ["RUNNABLE", "RUNNING"]),
        ("batchq list -q ", ["default", "gpu"]),
        ("batchq queue sh", ["show"]),
        ("batchq queue show g", ["gpu"]),
        ("batchq def show ", ["train"]),
        ("batchq show ", ["fit", "sim", "train"]),
        ("batchq cancel s", ["sim"]),
        ("batchq show 8", ["8f2c51a7"]),
        ("batchq completion z", ["zsh"]),
    ],
)
async def test_commands_flags_and_values_are_completed(catalog, complete, line, completed):
    assert await complete(line) == (completed, "")


@pytest.mark.process
@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nowhere"])
async def test_without_a_server_nothing_is_completed_and_nothing_printed(complete, url):
    assert await complete("batchq show ", BATCHQ_URL=url) == ([], "")


@pytest.mark.process
async def test_a_server_that_does_not_respond_is_not_waited_for(complete):
    with closing(create_server(("127.0.0.1", 0))) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"

        assert await complete("batchq show ", BATCHQ_URL=url) == ([], "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(capsys, shell):
    assert main(["completion", shell]) == 0

    assert "batchq" in capsys.readouterr().out
