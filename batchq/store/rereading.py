"""A database that was left whole, read through while it is in use already. Decision 0028."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

from batchq.store import opening

log = logging.getLogger(__name__)

AFTER = 10.0  # seconds, by when the rush of a start is over
PATIENCE = 2.0  # seconds that an end waits for it; SQLite hears of that only now and then
_OFTEN = 10_000  # steps of SQLite between two looks whether it is to end


class Rereading:
    """In a thread and by a connection of its own. `damage` is what it has found, None until then."""

    def __init__(self, path: Path, *, after: float, damaged: Callable[[], None]) -> None:
        """It begins so many seconds `after` this; `damaged` is called when it has found anything."""
        self.damage: str | None = None
        self._path = path
        self._after = after
        self._damaged = damaged
        self._over = Event()

    def run(self) -> None:
        if self._over.wait(self._after):
            return
        try:
            self.damage = self._read()
        except sqlite3.OperationalError as why:
            log.debug("%s is not read through: %s", self._path, why)
        except sqlite3.DatabaseError as why:
            self.damage = str(why)
        if self.damage is not None:
            self._damaged()

    def end(self) -> None:
        self._over.set()

    def _read(self) -> str | None:
        where = f"{self._path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(where, uri=True, isolation_level=None)) as connection:
            connection.set_progress_handler(self._over.is_set, _OFTEN)
            return opening.damage(connection)


@contextmanager
def rereading(path: Path, *, after: float, damaged: Callable[[], None]) -> Iterator[Rereading]:
    """Begun, and ended with this, done or not."""
    it = Rereading(path, after=after, damaged=damaged)
    thread = Thread(target=it.run, name="rereading", daemon=True)
    thread.start()
    try:
        yield it
    finally:
        it.end()
        thread.join(PATIENCE)
