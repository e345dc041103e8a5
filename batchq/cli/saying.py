"""How a command speaks: whether anybody reads it or not."""

import os
import sys
from contextlib import suppress

from batchq.cli.complaint import complain

OUT = 1  # standard stream


def say(text: str, *, end: str = "\n", at_once: bool = True) -> None:
    """What nobody reads must not be left for the end, which would fail by it."""
    try:
        print(text, end=end, flush=at_once)
    except BrokenPipeError:
        _speak_to_nobody()
    except OSError as why:
        _speak_to_nobody()
        complain(f"cannot write what there is to say: {why.strerror}")


def finish() -> None:
    """Raises OSError where something of what was printed cannot be written."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            _speak_to_nobody()
            raise


def _speak_to_nobody() -> None:
    with suppress(OSError):
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nobody, OUT)
        os.close(nobody)
