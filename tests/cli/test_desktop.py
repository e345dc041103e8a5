"""Notifications of `wait --notify`: a program of the desktop, or the bell of the terminal."""

import io
from contextlib import redirect_stderr

import pytest

from batchq.cli import desktop
from tests.cli.servers import batchq, row


class Terminal(io.StringIO):
    def isatty(self):
        return True


def printed_on_terminal(text):
    """What `notify_desktop` writes to a terminal."""
    with redirect_stderr(Terminal()) as terminal:
        desktop.notify_desktop(text)
    return terminal.getvalue()


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A notify-send that writes its arguments, and ends with the status of the file `status`."""
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/shown\nexit $(cat {tmp_path}/status)\n')
    program.chmod(0o700)
    (tmp_path / "status").write_text("0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("DISPLAY", ":0")
    return tmp_path


@pytest.mark.process
async def test_the_end_is_shown_on_the_desktop(native, program):
    native.rows = [row("train", "SUCCEEDED", exitCode=0)]

    assert await batchq("wait", "train", "--notify") == 0

    assert (program / "shown").read_text().splitlines() == ["--app-name", "batchq", "--", "batchq", "train: SUCCEEDED"]
    assert printed_on_terminal("again") == ""


@pytest.mark.process
def test_the_bell_is_rung_if_the_desktop_shows_nothing(program):
    (program / "status").write_text("1")

    assert printed_on_terminal("train: SUCCEEDED") == desktop.BELL


def test_without_a_desktop_the_bell_of_a_terminal_is_rung(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    assert printed_on_terminal("train: SUCCEEDED") == desktop.BELL
