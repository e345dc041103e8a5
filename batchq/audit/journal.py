"""The audit journal: `acts.log` in the data directory, one line of JSON a record, mode 0600.

Changes of accounts, users and keys are written to files, not to the database; their audit records are appended here
before the change is made. The server moves the records into its database before it answers a query, so the journal
stays short. If the process is killed between the record and the change, the record describes a change that was not
made; no change is made without a record.
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
    """The audit journal of a data directory. Every method raises Unavailable if the file cannot be read or written."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME

    def note(self, act: AuditRecord) -> None:
        """Append a record. It is durable when this method returns."""
        line = msgspec.json.encode(PendingAudit(mark=uuid4().hex, act=act))
        try:
            with locked(self._path):
                append(self._path, b"\n" + line + b"\n")  # the first \n ends a line that a crash cut off
        except OSError as why:
            raise Unavailable(f"cannot write {self._path}: {why.strerror}") from None

    def read(self) -> tuple[Sequence[PendingAudit], int]:
        """All records, oldest first, and the length of the file in bytes."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return (), 0
        except OSError as why:
            raise Unavailable(f"cannot read {self._path}: {why.strerror}") from None
        return tuple(it for line in content.splitlines() if (it := _noted(line)) is not None), len(content)

    def drop(self, length: int) -> None:
        """Remove the first `length` bytes of the file."""
        try:
            with locked(self._path):
                put(self._path, self._path.read_bytes()[length:])
        except OSError as why:
            raise Unavailable(f"cannot write {self._path}: {why.strerror}") from None


def _noted(line: bytes) -> PendingAudit | None:
    """The record in a line; None for a line that a crash cut off."""
    try:
        return _NOTED.decode(line)
    except ValueError:
        return None
