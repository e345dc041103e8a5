"""What depends on the terminal: whether there is one, its colours, and the status line of a command that waits."""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TextIO

from batchq.cli.output import escape, print_notice
from batchq.cli.times import elapsed

#: Colours by name, as parameters of the control sequence SGR.
SGR: Mapping[str, str] = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "dim": "2",
    "bold": "1",
}

INTERVAL = 60.0  # seconds between two lines without a terminal
_CLEAR = "\r\x1b[K"
ColorMode = Literal["auto", "always", "never"]


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether the stream, or stdout, is a terminal. A closed stream is none."""
    stream = stream or sys.stdout
    return stream is not None and not stream.closed and stream.isatty()


def uses_color(mode: ColorMode, stream: TextIO | None = None) -> bool:
    """Whether the output has colours: by the flag, else by NO_COLOR, FORCE_COLOR and TERM, else on a terminal."""
    if mode != "auto":
        return mode == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and is_terminal(stream)


def paint(text: str, style: str) -> str:
    """The text in a colour of `SGR`; unchanged for an unknown or empty name."""
    return f"\x1b[{SGR[style]}m{text}\x1b[0m" if style in SGR else text


class StatusLine:
    """A line on stderr that is rewritten while a command waits. Other output must be preceded by `clear`."""

    def __init__(self, *, delay: float = 0.0) -> None:
        """`delay`: seconds until the first line without a terminal; then one is printed at most every INTERVAL."""
        self._is_terminal = is_terminal(sys.stderr)
        self._shown = ""
        self._print_at = elapsed() + delay

    def show(self, text: str) -> None:
        """Replace the line. Without a terminal a text is printed if it differs, and INTERVAL has passed."""
        text = escape(text)
        if not self._is_terminal:
            self._print(text)
        elif text != self._shown:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{_CLEAR}{text[:width]}")
            self._shown = text

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._is_terminal and self._shown:
            self._write(_CLEAR)
            self._shown = ""

    def notice(self, text: str) -> None:
        """Print a message above the line."""
        self.clear()
        print_notice(text)

    def _print(self, text: str) -> None:
        if text != self._shown and elapsed() >= self._print_at:
            print_notice(text)
            self._shown, self._print_at = text, elapsed() + INTERVAL

    def _write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
