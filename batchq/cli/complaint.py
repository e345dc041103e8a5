"""How a command that cannot do what it was told says so: one line on stderr, and a status that is not 0."""

import sys
from contextlib import suppress

from batchq.cli.lines import line

REFUSED, MISUSED, AWAY, INTERRUPTED = 1, 2, 3, 130  # exit statuses; AWAY: no server answers, or it cannot now


def complain(text: str, status: int = REFUSED) -> int:
    note(text)
    return status


def note(text: str) -> None:
    """Beside what a command answers, for whoever sits before it."""
    with suppress(OSError):  # nobody reads it any more, or its disk is full
        print(line(f"batchq: {text}"), file=sys.stderr, flush=True)
