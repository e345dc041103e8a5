"""Audit records of a data directory, with or without a running server. Read-only."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from batchq.audit.journal import Journal
from batchq.domain.access.audit import AuditQuery, PendingAudit, StoredAudit
from batchq.errors import StoreRefused
from batchq.store import audit, integrity, migrations
from batchq.store.database import NAME
from batchq.store.offline.backup import AT_REST, BESIDE_A_SERVER, looked_at


def read_audit(data: Path, query: AuditQuery) -> tuple[StoredAudit, ...]:
    """The records of the database, and those of the journal that it has not ingested yet. Raises StoreRefused."""
    found = {(it.act.at, -it.number): it for it in _matching(Journal(data).read()[0], query)}
    found |= {(it.act.at, it.number): it for it in _saved(data / NAME, query)}
    return tuple(found[place] for place in sorted(found, reverse=True)[: query.limit])


def _matching(noted: Sequence[PendingAudit], query: AuditQuery) -> tuple[StoredAudit, ...]:
    """The records that match, by the database's own statements."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrations.migrate(connection, migrations.STEPS)
        audit.take_over(connection, noted)
        return audit.page(connection, query)


def _saved(path: Path, query: AuditQuery) -> tuple[StoredAudit, ...]:
    """The matching records of the database; empty if there is no database, or its schema is not the newest."""
    if not path.exists():
        return ()
    beside = path.with_name(f"{NAME}-wal").exists()
    with looked_at(path, BESIDE_A_SERVER if beside else AT_REST) as connection:
        try:
            integrity.examine(connection, path, None)
            return audit.page(connection, query) if migrations.version(connection) == migrations.newest() else ()
        except sqlite3.Error as why:
            raise StoreRefused(f"cannot read {path}: {why}") from why
