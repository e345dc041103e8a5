"""Acts of a data directory, beside its server or without one. Nothing is changed."""

import sqlite3
from pathlib import Path

from batchq.audit.journal import Journal
from batchq.domain.access.audit import ActQuery, Kept
from batchq.errors import StoreRefused
from batchq.store import audit, integrity, migrations
from batchq.store.database import NAME
from batchq.store.memory_acts import MemoryActs
from batchq.store.offline.backup import AT_REST, BESIDE_A_SERVER, looked_at


def look(data: Path, query: ActQuery) -> tuple[Kept, ...]:
    """As a server would tell them: those of the database, and what was noted since beside it. Raises StoreRefused."""
    noted = MemoryActs()
    noted.take_over(Journal(data).read()[0])
    found = {(it.act.at, -it.number): it for it in noted.page(query)}
    found |= {(it.act.at, it.number): it for it in _saved(data / NAME, query)}
    return tuple(found[place] for place in sorted(found, reverse=True)[: query.limit])


def _saved(path: Path, query: ActQuery) -> tuple[Kept, ...]:
    """None where no server has made a database yet."""
    if not path.exists():
        return ()
    beside = path.with_name(f"{NAME}-wal").exists()
    with looked_at(path, BESIDE_A_SERVER if beside else AT_REST) as connection:
        try:
            integrity.examine(connection, path, None)
            return audit.page(connection, query) if migrations.version(connection) == migrations.newest() else ()
        except sqlite3.Error as why:
            raise StoreRefused(f"cannot read {path}: {why}") from why
