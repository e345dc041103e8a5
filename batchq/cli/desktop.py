"""Notifications on the user's own desktop: notify-send, osascript, or the bell of the terminal."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from shutil import which

from batchq.cli.output import is_terminal
from batchq.system.escapes import escape

TIMEOUT = 5.0  # seconds of the program that shows the notification
BELL = "\a"
TITLE = "batchq"
#: The text is an argument of the script, so that no text is executed.
APPLE_SCRIPT = "on run argv\ndisplay notification (item 1 of argv) with title (item 2 of argv)\nend run"


def notify_desktop(text: str) -> None:
    """Show a notification; without a desktop, or if its program fails, ring the terminal's bell."""
    command = _command(escape(text))
    if command:
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT)  # noqa: S603 - no shell
            return
    if is_terminal(sys.stderr):
        with suppress(OSError):
            print(BELL, end="", file=sys.stderr, flush=True)


def _command(text: str) -> Sequence[str]:
    """The program that shows a notification, with its arguments; empty without a desktop."""
    if sys.platform == "darwin":
        return ("osascript", "-e", APPLE_SCRIPT, text, TITLE)
    has_desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    program = which("notify-send") if has_desktop else None
    return () if program is None else (program, "--app-name", TITLE, "--", TITLE, text)
