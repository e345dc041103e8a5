"""The audit log of a server, and the journal that feeds it. Decision 0024.

Changes of accounts, users and keys are written to files, not to the database; their audit records are appended to the
journal before the change is made: `audit.log` in the data directory, one line of JSON a record, mode 0600. The server
moves the records into its database before it answers a query, so the journal stays short. If the process is killed
between the record and the change, the record describes a change that was not made; no change is made without a record.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import msgspec

from batchq.domain.access.audit import AuditQuery, AuditRecord, PendingAudit, StoredAudit
from batchq.errors import Unavailable
from batchq.ports.clock import Clock
from batchq.system.private_file import append, locked_file, replace_file

log = logging.getLogger(__name__)
JOURNAL_FILE = "audit.log"
INTERVAL = 600.0  # seconds between two rounds
BATCH_SIZE = 500  # records deleted in one transaction: the writer is busy for a few milliseconds
PAUSE = 0.05  # seconds between two deletions, in which other writes are committed
_DECODER = msgspec.json.Decoder(PendingAudit)


class AuditStore(Protocol):
    """Stored audit records. Each call is one transaction, and raises StoreFailed if it cannot be committed."""

    async def audit_records(self, query: AuditQuery) -> tuple[StoredAudit, ...]: ...

    async def ingest_audit_records(self, noted: Sequence[PendingAudit]) -> None:
        """Insert records of the journal. A record whose `entry_id` is stored already is skipped."""

    async def prune_audit_records(self, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` records from before `before`, oldest first. Returns how many were deleted."""


class Journal:
    """The audit journal of a data directory. Every method raises Unavailable if the file cannot be read or written."""

    def __init__(self, data: Path) -> None:
        self._path = data / JOURNAL_FILE

    def append(self, record: AuditRecord) -> None:
        """Append a record. It is durable when this method returns."""
        line = msgspec.json.encode(PendingAudit(entry_id=uuid4().hex, record=record))
        try:
            with locked_file(self._path):
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
        return tuple(record for line in content.splitlines() if (record := _decode(line)) is not None), len(content)

    def drop(self, length: int) -> None:
        """Remove the first `length` bytes of the file."""
        try:
            with locked_file(self._path):
                replace_file(self._path, self._path.read_bytes()[length:])
        except OSError as why:
            raise Unavailable(f"cannot write {self._path}: {why.strerror}") from None


def _decode(line: bytes) -> PendingAudit | None:
    """The record in a line; None for a line that a crash cut off."""
    try:
        return _DECODER.decode(line)
    except ValueError:
        return None


class AuditLog:
    """The audit log of a server: the records in the database and those in the journal beside it."""

    def __init__(self, *, store: AuditStore, journal: Journal, clock: Clock, retention: timedelta | None) -> None:
        """`retention`: the age at which records are deleted; None: never."""
        self._store = store
        self._journal = journal
        self._clock = clock
        self._retention = retention
        self._ingest_lock = asyncio.Lock()

    async def records(self, query: AuditQuery) -> tuple[StoredAudit, ...]:
        """The records that match `query`, those in the journal included. Raises Unavailable."""
        await self._ingest_journal()
        return await self._store.audit_records(query)

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except Unavailable as failure:
                log.warning("audit records cannot be ingested or deleted at present: %s", failure)
            await self._clock.sleep(INTERVAL)

    async def run_once(self) -> None:
        await self._ingest_journal()
        while self._retention is not None:
            if (
                await self._store.prune_audit_records(self._clock.now() - self._retention, limit=BATCH_SIZE)
                < BATCH_SIZE
            ):
                break
            await self._clock.sleep(PAUSE)

    async def _ingest_journal(self) -> None:
        """Move the journal's records into the database.

        They are inserted before they are dropped from the journal. After a crash in between they are inserted again,
        which their `entry_id` makes a no-op.
        """
        async with self._ingest_lock:
            records, length = await asyncio.to_thread(self._journal.read)
            if length:
                await self._store.ingest_audit_records(records)
                await asyncio.to_thread(self._journal.drop, length)
