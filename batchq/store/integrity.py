"""Checks of a database before it is used: application id, integrity, schema. They run in the writer's thread."""

import logging
import secrets
import sqlite3
from pathlib import Path

from batchq.errors import StoreRefused
from batchq.store import migrations

log = logging.getLogger(__name__)


def prepare(connection: sqlite3.Connection, *, path: Path, expected: str | None, whole: bool = False) -> str:
    """Check the database, migrate it to the newest schema, and return its instance. Raises StoreRefused.

    A refused database is not changed. `whole`: the integrity check is skipped, because the last shutdown was clean.
    """
    examine(connection, path, expected, whole=whole)
    path.chmod(0o600)
    _put_to_disk(connection, path)
    _settle(connection, path)
    migrations.migrate(connection, migrations.STEPS)
    return _instance(connection)


def bear_damage(connection: sqlite3.Connection) -> None:
    """Let sqlite3 return texts with invalid UTF-8 instead of raising, so that the row of a damaged value is known."""
    connection.text_factory = _text


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def examine(connection: sqlite3.Connection, path: Path, expected: str | None, *, whole: bool = False) -> None:
    """Raises StoreRefused unless this is an undamaged database of batchq with a known schema.

    `expected`: the instance that the directory should have; None: the database may be new. `whole`: skip the
    integrity check.
    """
    try:
        new = _is_new(connection)
        found = None if whole else damage(connection)
    except sqlite3.DatabaseError as why:
        if isinstance(why, sqlite3.OperationalError):
            raise StoreRefused(f"cannot open {path}: {why}") from why
        raise StoreRefused(f"{path} is damaged, or no database: {why}") from why
    if new and expected is not None:
        raise StoreRefused(
            f"{path} is missing or empty, but {path.parent} held the data of instance {expected}: "
            f"put it back, or remove batchq.lock to begin anew"
        )
    if not new and migrations.application(connection) != migrations.APPLICATION_ID:
        raise StoreRefused(f"{path} is another program's database")
    if migrations.version(connection) > migrations.newest():
        raise StoreRefused(f"{path} was written by a newer batchq: use that one, or a backup from before it")
    if found is not None:
        raise StoreRefused(f"{path} is damaged: {found}")


def damage(connection: sqlite3.Connection) -> str | None:
    """The first error that SQLite's quick check finds; None if there is none. Reads the whole database."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if found == "ok" else str(found)


def only_read(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


def _is_new(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return tables == 0 and migrations.application(connection) == 0


def _settle(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreRefused(f"{path} is on a file system where SQLite cannot keep a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _put_to_disk(connection: sqlite3.Connection, path: Path) -> None:
    """Checkpoint the write-ahead log, so that everything that recovery read from it is durable before it is used."""
    try:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as why:
        raise StoreRefused(f"{path} cannot be put to disk: {why}") from why
    if busy:
        log.warning("%s is being read by another program; what was written last is put to disk later", path)


def _instance(connection: sqlite3.Connection) -> str:
    """The instance: eight hexadecimal digits, chosen at the first start."""
    return _chosen_once(connection, "instance", secrets.token_hex(4))


def new_instance(connection: sqlite3.Connection) -> str:
    """Give the data a new instance. Containers of the old instance no longer belong to it."""
    instance = secrets.token_hex(4)
    connection.execute("UPDATE metadata SET value = ? WHERE name = 'instance'", (instance,))
    return instance


def secret(connection: sqlite3.Connection) -> bytes:
    """32 random bytes, chosen at the first call and never sent to a client."""
    return bytes.fromhex(_chosen_once(connection, "secret", secrets.token_hex(32)))


def _chosen_once(connection: sqlite3.Connection, name: str, value: str) -> str:
    """The stored value of `name`; at the first call, `value` is stored."""
    connection.execute("INSERT OR IGNORE INTO metadata (name, value) VALUES (?, ?)", (name, value))
    (chosen,) = connection.execute("SELECT value FROM metadata WHERE name = ?", (name,)).fetchone()
    return str(chosen)
