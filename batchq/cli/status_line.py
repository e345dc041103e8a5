"""One line on stderr that is rewritten while a command waits. Without a terminal it is printed at intervals."""

import shutil
import sys
from contextlib import suppress

from batchq.cli.output import escape, print_notice
from batchq.cli.terminal import is_terminal
from batchq.cli.times import elapsed

INTERVAL = 60.0  # seconds between two lines without a terminal
_CLEAR = "\r\x1b[K"


class StatusLine:
    """The line; other output must be preceded by `clear`."""

    def __init__(self, *, delay: float = 0.0) -> None:
        """`delay`: seconds until the first line without a terminal."""
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
