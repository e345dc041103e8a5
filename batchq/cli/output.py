"""Output of the commands: exit statuses, messages on stderr, lines on stdout, colours, and the status line."""

import io
import os
import select
import shutil
import stat
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from typing import Literal, TextIO

from batchq.cli.quantities import elapsed
from batchq.errors import BatchqError, UsageError
from batchq.system.escapes import escape

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

INTERVAL = 30.0  # seconds between two lines without a terminal
_CLEAR = "\r\x1b[K"
ColorMode = Literal["auto", "always", "never"]


DONE = 0
REFUSED = 1
MISUSED = 2
UNAVAILABLE = 3
TIMED_OUT = 124  # as timeout(1)
NO_EXIT_CODE = 125  # as docker run
INTERRUPTED = 130  # 128 and the number of SIGINT
#: The table of exit statuses in the help of the commands, and in docs/command-line.md.
EXIT_STATUSES = """\
exit status:
  0    done; cancel and terminate: also if no job matches, or one has finished
  1    refused or not found; of several jobs: not done for all, or one FAILED
  2    invalid arguments; cancel and terminate: or refused; nothing is changed
  3    the server cannot be reached, or is unavailable
  124  a time limit has passed: --timeout, or the job's own
  125  the job has no exit code: it never started, or was stopped
  130  interrupted by Ctrl-C; the server completes a request it has accepted
  run, and wait for one job: the exit code of the job"""

_failures: list[OSError] = []  # of writes to stdout, since the last call of `output_failed`
STDOUT = 1  # the file descriptor


def print_error(text: str, status: int = REFUSED) -> int:
    """Print the error on stderr and return the exit status."""
    print_notice(text)
    return status


def print_notice(text: str) -> None:
    """Print a message on stderr, beside the command's output."""
    with suppress(OSError):  # the reader of stderr is gone, or its disk is full
        print(escape(f"batchq: {text}"), file=sys.stderr, flush=True)


def check_list_flags(args: Namespace) -> None:
    """Raise UsageError for `--columns` or `--sort` with a form of output that does not have columns or this order."""
    form, query = getattr(args, "output", None), getattr(args, "query", None)
    printed = "--query" if query else f"-o {form}"
    if getattr(args, "columns", None) and (query or form in {"json", "jsonl", "ids"}):
        raise UsageError(f"{printed} has no columns: write -o csv --columns, or --query for some members as JSON")
    if getattr(args, "sort", None) and (query or form == "json"):
        raise UsageError(f"{printed} has the order of the server: write -o jsonl --sort, or sort_by() in --query")


def write_line(text: str, *, end: str = "\n", flush: bool = True) -> None:
    """Print a line. If that fails, later output is discarded, so that the command can complete.

    A closed pipe is not an error; any other failure is reported on stderr.
    """
    try:
        print(text, end=end, flush=flush)
    except BrokenPipeError:
        _discard_output()
    except OSError as why:
        _discard_output()
        _failures.append(why)
        print_error(f"cannot write the output: {why.strerror}")


def output_failed() -> bool:
    """Whether stdout refused a line since the last call. A pipe that its reader has closed does not count."""
    failed = bool(_failures)
    _failures.clear()
    return failed


def accept_all_text() -> None:
    """Let stdout print characters that its encoding does not have, and lone surrogates, as escape sequences."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        with suppress(OSError):  # a stream for reading and writing must be seekable
            sys.stdout.reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Flush stdout. Raises OSError if output cannot be written."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
            raise


def _discard_output() -> None:
    """Redirect stdout to /dev/null, because unwritten output would make each later flush fail too."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, STDOUT)
        os.close(null)


class Declined(BatchqError):
    """The user did not confirm the request; nothing was requested."""


def can_ask() -> bool:
    """Whether a question can be asked: stdin and stderr are terminals."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def confirm(action: str) -> None:
    """Ask whether the action is carried out. Raises Declined if the answer is not `y`."""
    print(f"batchq: {action}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Declined("nothing is changed")


def exit_with_reader() -> None:
    """End the process with the status REFUSED as soon as the reader of stdout has closed it.

    A write reports a closed pipe too. But a command that waits for a server's next response writes nothing meanwhile.
    """
    with suppress(OSError):  # stdout is closed
        mode = os.fstat(STDOUT).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            Thread(target=_await_closed_output, daemon=True).start()


def _await_closed_output() -> None:
    output = select.poll()
    output.register(STDOUT, 0)  # the system reports POLLERR and POLLHUP in any case
    output.poll()
    os._exit(REFUSED)


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
