"""How a command that cannot do what it was told says so: one line on stderr, and a status that is not 0."""

import sys

REFUSED, MISUSED = 1, 2  # exit statuses


def complain(text: str, status: int = REFUSED) -> int:
    sys.stderr.write(f"batchq: {text}\n")
    return status
