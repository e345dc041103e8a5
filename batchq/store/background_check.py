"""A database that was left whole, read through while it is in use already. Decision 0028."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

from batchq.store import integrity

log = logging.getLogger(__name__)

AFTER = 10.0  # seconds, by when the rush of a start is over
PATIENCE = 2.0  # seconds that an end waits for it; SQLite hears of that only now and then
_OFTEN = 10_000  # steps of SQLite between two looks whether it is to end


class Rereading:
    """In a thread and by a connection of its own. `damage` is what it has found, None until then."""

    def __init__(self, path: Path, *, after: float, doubted: Callable[[], None]) -> None:
        """It begins so many seconds `after` this; `doubted` is called when it was read and is not known to be whole."""
        self.damage: str | None = None
        self._path = path
        self._after = after
        self._doubted = doubted
        self._over = Event()

    def run(self) -> None:
        if self._over.wait(self._after):
            return
        try:
            self.damage = self._read()
        except sqlite3.OperationalError as why:
            if self._over.is_set():
                return
            log.warning("%s cannot be read through, and will be at the next start: %s", self._path, why)
            self._doubted()
        except sqlite3.DatabaseError as why:
            self.damage = str(why)
        if self.damage is not None:
            self._doubted()

    def end(self) -> None:
        self._over.set()

    def _read(self) -> str | None:
        where = f"{self._path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(where, uri=True, isolation_level=None)) as connection:
            connection.set_progress_handler(self._over.is_set, _OFTEN)
            return integrity.damage(connection)


@contextmanager
def rereading(path: Path, *, after: float, doubted: Callable[[], None]) -> Iterator[Rereading]:
    """Begun, and ended with this, done or not."""
    it = Rereading(path, after=after, doubted=doubted)
    thread = Thread(target=it.run, name="rereading", daemon=True)
    thread.start()
    try:
        yield it
    finally:
        it.end()
        thread.join(PATIENCE)
