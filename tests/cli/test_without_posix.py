"""The commands that use a server run on Windows: they need no module that Python has on POSIX systems only."""

import subprocess
import sys

import pytest

from batchq.cli.command_table import COMMANDS

NEEDS_POSIX = {"serve", "doctor", "backup", "check", "restore"}
EVERY_HELP = """
from batchq.cli.command_table import COMMANDS
from batchq.cli.main import main
from tests.cli.without_posix import remove_posix

remove_posix()
for name in COMMANDS:
    try:
        main([name, "--help"])
    except SystemExit as ended:
        print("ended", name, ended.code)
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.process
def test_each_command_that_uses_a_server_is_imported_without_posix_modules():
    ended = run("-c", EVERY_HELP)

    lines = [line.split() for line in ended.stdout.splitlines() if line.startswith("ended ")]
    assert {name for _, name, _ in lines} == COMMANDS.keys(), ended.stderr
    assert {name for _, name, status in lines if status != "0"} == NEEDS_POSIX
    assert (
        "batchq: batchq serve needs Linux or macOS; commands that use a server run on this system too" in ended.stderr
    )


@pytest.mark.process
def test_a_request_is_sent_without_posix_modules():
    ended = run("-m", "tests.cli.without_posix", "list", "--url", "http://127.0.0.1:1")

    assert ended.returncode == 3, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "127.0.0.1:1" in ended.stderr
