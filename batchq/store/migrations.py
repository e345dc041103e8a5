"""Schema migrations: forward only, each one transaction.

Version N of the schema is made by `sql/000N_*.sql` from version N - 1. SQLite stores the version in `user_version`.
"""

import logging
import sqlite3
from collections.abc import Mapping

from batchq.store.statements import Begin, migration_scripts, run_transaction, split_script

#: "btch", stored in `application_id`: distinguishes a database of batchq from those of other programs.
APPLICATION_ID = 0x62746368

log = logging.getLogger(__name__)

#: The SQL script of each version.
STEPS = migration_scripts()


def newest() -> int:
    """The version of the schema that this batchq reads and writes."""
    return max(STEPS)


def version(connection: sqlite3.Connection) -> int:
    """The version of the schema of this database; 0 for a new one."""
    return _pragma(connection, "user_version")


def application(connection: sqlite3.Connection) -> int:
    """The `application_id` of this database; 0 for a new one."""
    return _pragma(connection, "application_id")


def migrate(connection: sqlite3.Connection, steps: Mapping[int, str]) -> None:
    """Bring the schema to the newest version of `steps`. Each version is committed before the next one begins."""
    before = version(connection)
    for number in range(before + 1, max(steps) + 1):
        _migrate_to(connection, number, steps[number])
        if before:
            log.info("database schema upgraded from version %d to %d", number - 1, number)


def _migrate_to(connection: sqlite3.Connection, number: int, step: str) -> None:
    def work(it: sqlite3.Connection) -> None:
        for statement in split_script(step):
            it.execute(statement)
        it.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        it.execute(f"PRAGMA user_version = {number}")

    run_transaction(Begin.WRITING, work, connection)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
