"""The doctor's examination of a data directory, with or without a running server. Read-only; creates no files."""

import os
import sqlite3
from collections.abc import Collection
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from stat import S_IMODE

from msgspec.structs import replace

from batchq import private_file
from batchq.accounts import access_keys, accounts_file
from batchq.audit import journal
from batchq.doctor.facts import DatabaseFacts, DiskSpace, FileFacts, StoreFacts
from batchq.domain.ids import JobId
from batchq.errors import BatchqError, StoreRefused
from batchq.store import integrity, job_reads, lock, migrations, quarantine
from batchq.store.database import NAME
from batchq.store.matching import EPOCH
from batchq.store.offline.backup import AT_REST, BESIDE_A_SERVER, looked_at

FOLDER_MODE, FILE_MODE = 0o700, 0o600

Connection = sqlite3.Connection


def examine_data(data: Path) -> StoreFacts:
    """All facts about a data directory, without the jobs of containers (`with_named` adds them)."""
    path = data / NAME
    facts = StoreFacts(data=data, newest_schema=migrations.newest(), disk=_room(data))
    if not path.exists() and not _size(data / lock.NAME):  # a server notes its instance in the lock file
        return facts
    held, holder = lock.holder(data)
    facts = replace(facts, copied=lock.is_copied(data))
    facts = replace(
        facts, exists=True, locked=held, holder_pid=holder, files=_files(data), wal_bytes=_size(_beside(path, "-wal"))
    )
    try:
        with _looked_at(path) as connection:
            integrity.examine(connection, path, None)
            schema = migrations.version(connection)
            return replace(
                facts, schema=schema, database=_records(connection) if schema == migrations.newest() else None
            )
    except (StoreRefused, sqlite3.Error) as why:
        return replace(facts, refusal=str(why))


def with_named(facts: StoreFacts, ids: Collection[JobId]) -> StoreFacts:
    """The facts with the jobs of these ids added; unknown ids are omitted."""
    if facts.database is None:
        return facts
    try:
        with _looked_at(facts.data / NAME) as connection:
            return replace(
                facts, database=replace(facts.database, container_jobs=job_reads.find(connection, [*ids], None))
            )
    except (BatchqError, ValueError, sqlite3.Error) as why:
        return replace(facts, database=replace(facts.database, read_error=_first_line(why)))


def _looked_at(path: Path) -> AbstractContextManager[Connection]:
    """A read-only connection that creates no files if no server has the database open."""
    return looked_at(path, BESIDE_A_SERVER if _beside(path, "-wal").exists() else AT_REST)


def _records(connection: Connection) -> DatabaseFacts:
    (instance,) = connection.execute("SELECT value FROM metadata WHERE name = 'instance'").fetchone()
    records = DatabaseFacts(instance=str(instance), container_jobs={})
    try:
        restoration = job_reads.restoration(connection)
        return replace(
            records,
            engine_id=job_reads.engine_id(connection),
            newest_created_at=_newest(connection),
            active=job_reads.active(connection),
            quarantined=quarantine.count(connection),
            restored_at=restoration.at,
            spared=restoration.spared,
        )
    except (BatchqError, ValueError) as fault:
        return replace(records, read_error=_first_line(fault))


def _newest(connection: Connection) -> datetime | None:
    found = connection.execute(job_reads.SQL["newest_created_at"]).fetchone()
    return None if found is None else EPOCH + timedelta(milliseconds=found[0])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _files(data: Path) -> tuple[FileFacts, ...]:
    wanted = {
        data: FOLDER_MODE,
        data / lock.NAME: FILE_MODE,
        data / access_keys.NAME: private_file.PRIVATE,
        data / accounts_file.NAME: private_file.PRIVATE,
        data / journal.NAME: private_file.PRIVATE,
    } | {_beside(data / NAME, end): FILE_MODE for end in ("", "-wal", "-shm")}
    found = ((path, mode, _stat(path)) for path, mode in wanted.items())
    return tuple(
        FileFacts(path=path, mode=S_IMODE(it.st_mode), allowed_mode=mode, owner_uid=it.st_uid)
        for path, mode, it in found
        if it is not None
    )


def _room(data: Path) -> DiskSpace | None:
    """The disk space of the directory, or of the nearest existing parent."""
    there = next((it for it in (data, *data.absolute().parents) if it.exists()), None)
    if there is None:
        return None
    disk = os.statvfs(there)
    return DiskSpace(free=disk.f_bavail * disk.f_frsize, size=disk.f_blocks * disk.f_frsize)


def _size(path: Path) -> int:
    found = _stat(path)
    return 0 if found is None else found.st_size


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)
