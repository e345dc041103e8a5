"""Acts that are no matter of the database: `acts.log` beside the data, a line of JSON each, mode 0600.

What is done to accounts, users and keys stands here before it is done. A server takes the lines over into its database
before it tells of acts, so this holds few of them. Killed between the line and the deed, the line tells of what was
asked and did not happen; nothing happens without a line.
"""

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import msgspec

from batchq.domain.access.audit import AuditRecord, PendingAudit
from batchq.errors import Unavailable
from batchq.private_file import append, locked, put

NAME = "acts.log"


_NOTED = msgspec.json.Decoder(PendingAudit)


class Journal:
    """Of a data directory. Raises Unavailable when the file cannot be used."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME

    def note(self, act: AuditRecord) -> None:
        """It is durable when this returns."""
        line = msgspec.json.encode(PendingAudit(mark=uuid4().hex, act=act))
        try:
            with locked(self._path):
                append(self._path, b"\n" + line + b"\n")  # what a crash left of the line before ends here
        except OSError as why:
            raise Unavailable(f"cannot write {self._path}: {why.strerror}") from None

    def read(self) -> tuple[Sequence[PendingAudit], int]:
        """All of them, oldest first, and how long the file is with them."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return (), 0
        except OSError as why:
            raise Unavailable(f"cannot read {self._path}: {why.strerror}") from None
        return tuple(it for line in content.splitlines() if (it := _noted(line)) is not None), len(content)

    def drop(self, length: int) -> None:
        """Forget so much of the beginning of the file."""
        try:
            with locked(self._path):
                put(self._path, self._path.read_bytes()[length:])
        except OSError as why:
            raise Unavailable(f"cannot write {self._path}: {why.strerror}") from None


def _noted(line: bytes) -> PendingAudit | None:
    """None for what a crash has left of a line."""
    try:
        return _NOTED.decode(line)
    except ValueError:
        return None
