"""Output of the commands: messages on stderr, one line each, and lines on stdout, whose reader may have gone."""

import io
import os
import sys
from contextlib import suppress

from batchq.cli.exit_statuses import REFUSED

STDOUT = 1  # the file descriptor

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)

_DIRECTIONS = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))

#: For `str.translate`: control characters and marks of text direction, each with its escape sequence.
ESCAPES = {it: ascii(chr(it))[1:-1] for it in (*_CONTROLS, *_DIRECTIONS)}


def print_error(text: str, status: int = REFUSED) -> int:
    """Print the error on stderr and return the exit status."""
    print_notice(text)
    return status


def print_notice(text: str) -> None:
    """Print a message on stderr, beside the command's output."""
    with suppress(OSError):  # the reader of stderr is gone, or its disk is full
        print(escape(f"batchq: {text}"), file=sys.stderr, flush=True)


def escape(text: str) -> str:
    """Escape control characters: text of a caller must not start, colour or reverse a line of a terminal."""
    return text if text.isprintable() else text.translate(ESCAPES)


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
        print_error(f"cannot write the output: {why.strerror}")


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
