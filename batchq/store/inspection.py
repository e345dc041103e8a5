"""Read-only inspection of a data directory, with or without a running server. Creates no files.

It serves `batchq doctor` and `batchq audit`.
"""

import os
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, closing
from datetime import datetime, timedelta
from pathlib import Path
from sqlite3 import Connection
from stat import S_IMODE

from msgspec.structs import replace

from batchq.accounts.files import ACCOUNTS_FILE, KEYS_FILE
from batchq.audit import JOURNAL_FILE, Journal
from batchq.doctor.facts import CheckpointFacts, DatabaseFacts, DiskSpace, FileFacts, StoreFacts
from batchq.domain.access.audit import AuditQuery, PendingAudit, StoredAudit
from batchq.domain.catalog import ComputeEnvironment, oci_runtime_of
from batchq.domain.ids import JobId
from batchq.domain.times import EPOCH
from batchq.errors import BatchqError, StoreRefused
from batchq.store import audit, catalog, integrity, job_reads, lock, quarantine, statements
from batchq.store.backup import WITH_SERVER, WITHOUT_SERVER, read_only_connection
from batchq.store.database import NAME
from batchq.system import private_file

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def examine_data(data: Path) -> StoreFacts:
    """All facts about a data directory, without the jobs of containers (`with_container_jobs` adds them)."""
    path = data / NAME
    facts = StoreFacts(data=data, newest_schema=statements.newest_schema(), disk=_disk_space(data))
    if not path.exists() and not _size(data / lock.NAME):  # a server writes its instance into the lock file
        return facts
    locked, holder = lock.lock_holder(data)
    facts = replace(facts, copied=lock.is_copied(data))
    facts = replace(
        facts,
        exists=True,
        locked=locked,
        holder_pid=holder,
        files=_files(data),
        wal_bytes=_size(_sibling(path, "-wal")),
    )
    try:
        with _connection(path) as connection:
            integrity.require_intact(connection, path, None)
            schema = statements.schema_version(connection)
            return replace(
                facts,
                schema=schema,
                database=_database_facts(connection) if schema == statements.newest_schema() else None,
            )
    except (StoreRefused, sqlite3.Error) as why:
        return replace(facts, refusal=str(why))


def examine_checkpoints(path: Path) -> CheckpointFacts | None:
    """The facts about the directory of checkpoints; None if it does not exist."""
    try:
        mode = S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    return CheckpointFacts(path=path, mode=mode, disk=_disk_space(path))


def with_container_jobs(facts: StoreFacts, ids: Collection[JobId]) -> StoreFacts:
    """The facts with the jobs of these ids added; unknown ids are omitted."""
    if facts.database is None:
        return facts
    try:
        with _connection(facts.data / NAME) as connection:
            return replace(
                facts, database=replace(facts.database, container_jobs=job_reads.find_jobs(connection, [*ids]))
            )
    except (BatchqError, ValueError, sqlite3.Error) as why:
        return replace(facts, database=replace(facts.database, read_error=_first_line(why)))


def read_audit(data: Path, query: AuditQuery) -> tuple[StoredAudit, ...]:
    """The records of the database, and those of the journal that it has not ingested yet. Raises StoreRefused."""
    found = {
        (audit_record.record.at, -audit_record.number): audit_record
        for audit_record in _matching(Journal(data).read()[0], query)
    }
    found |= {
        (audit_record.record.at, audit_record.number): audit_record for audit_record in _stored(data / NAME, query)
    }
    return tuple(found[key] for key in sorted(found, reverse=True)[: query.limit])


def _connection(path: Path) -> AbstractContextManager[Connection]:
    """A read-only connection that creates no files if no server has the database open."""
    return read_only_connection(path, WITH_SERVER if _sibling(path, "-wal").exists() else WITHOUT_SERVER)


def _database_facts(connection: Connection) -> DatabaseFacts:
    (instance,) = connection.execute("SELECT value FROM metadata WHERE name = 'instance'").fetchone()
    facts = DatabaseFacts(instance=str(instance), container_jobs={})
    try:
        restoration = job_reads.restoration(connection)
        return replace(
            facts,
            engine_id=job_reads.engine_id(connection),
            newest_created_at=_newest(connection),
            active=job_reads.active(connection),
            quarantined=quarantine.quarantined_count(connection),
            restored_at=restoration.at,
            spared=restoration.spared,
            selected_runtimes=_selected_runtimes(connection),
        )
    except (BatchqError, ValueError) as fault:
        return replace(facts, read_error=_first_line(fault))


def _selected_runtimes(connection: Connection) -> frozenset[str]:
    """Raises StoreRefused for an unreadable compute environment."""
    environments = catalog.resources(connection, ComputeEnvironment)
    return frozenset(name for environment in environments if (name := oci_runtime_of(environment.tags)))


def _newest(connection: Connection) -> datetime | None:
    found = connection.execute(job_reads.SQL["newest_created_at"]).fetchone()
    return None if found is None else EPOCH + timedelta(milliseconds=found[0])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _files(data: Path) -> tuple[FileFacts, ...]:
    modes = {
        data: FOLDER_MODE,
        data / lock.NAME: FILE_MODE,
        data / KEYS_FILE: private_file.PRIVATE,
        data / ACCOUNTS_FILE: private_file.PRIVATE,
        data / JOURNAL_FILE: private_file.PRIVATE,
    } | {_sibling(data / NAME, end): FILE_MODE for end in ("", "-wal", "-shm")}
    found = ((path, mode, _stat(path)) for path, mode in modes.items())
    return tuple(
        FileFacts(path=path, mode=S_IMODE(result.st_mode), allowed_mode=mode, owner_uid=result.st_uid)
        for path, mode, result in found
        if result is not None
    )


def _disk_space(data: Path) -> DiskSpace | None:
    """The disk space of the directory, or of the nearest existing parent."""
    existing = next((path for path in (data, *data.absolute().parents) if path.exists()), None)
    if existing is None:
        return None
    disk = os.statvfs(existing)
    return DiskSpace(free=disk.f_bavail * disk.f_frsize, size=disk.f_blocks * disk.f_frsize)


def _size(path: Path) -> int:
    found = _stat(path)
    return 0 if found is None else found.st_size


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _sibling(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _matching(records: Sequence[PendingAudit], query: AuditQuery) -> tuple[StoredAudit, ...]:
    """The audit records that match the query, selected by SQL statements."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        statements.migrate(connection, statements.MIGRATIONS)
        audit.ingest(connection, records)
        return audit.newest_records(connection, query)


def _stored(path: Path, query: AuditQuery) -> tuple[StoredAudit, ...]:
    """The matching records of the database; empty if there is no database, or its schema is not the newest."""
    if not path.exists():
        return ()
    with _connection(path) as connection:
        try:
            integrity.require_intact(connection, path, None)
            return (
                audit.newest_records(connection, query)
                if statements.schema_version(connection) == statements.newest_schema()
                else ()
            )
        except sqlite3.Error as why:
            raise StoreRefused(f"cannot read {path}: {why}") from why
