"""Output of the commands: messages on stderr, one line each, and lines on stdout, whose reader may have gone."""

import os
import sys
from contextlib import suppress

REFUSED, MISUSED, AWAY, INTERRUPTED = 1, 2, 3, 130  # exit statuses; AWAY: ServerUnavailable

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)

_DIRECTIONS = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))

#: For `str.translate`: control characters and marks of text direction, each with its escape sequence.
ESCAPED = {it: ascii(chr(it))[1:-1] for it in (*_CONTROLS, *_DIRECTIONS)}


def complain(text: str, status: int = REFUSED) -> int:
    """Print the error and return the exit status."""
    note(text)
    return status


def note(text: str) -> None:
    """Print a message for the person at the terminal, beside the command's output."""
    with suppress(OSError):  # the reader of stderr is gone, or its disk is full
        print(line(f"batchq: {text}"), file=sys.stderr, flush=True)


def line(text: str) -> str:
    """Escape control characters: text of a caller must not start, colour or reverse a line of a terminal."""
    return text if text.isprintable() else text.translate(ESCAPED)


OUT = 1  # the file descriptor of stdout


def write_line(text: str, *, end: str = "\n", at_once: bool = True) -> None:
    """Print a line, flushed if `at_once`. If that fails, later output is discarded, so that the command can complete.

    A closed pipe is not an error; any other failure is reported on stderr.
    """
    try:
        print(text, end=end, flush=at_once)
    except BrokenPipeError:
        _speak_to_nobody()
    except OSError as why:
        _speak_to_nobody()
        complain(f"cannot write the output: {why.strerror}")


def finish() -> None:
    """Flush stdout. Raises OSError if output cannot be written."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            _speak_to_nobody()
            raise


def _speak_to_nobody() -> None:
    """Redirect stdout to /dev/null, because unwritten output would make each later flush fail too."""
    with suppress(OSError):
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nobody, OUT)
        os.close(nobody)
