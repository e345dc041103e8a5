"""The integrity check in the background after a clean shutdown, while the database is in use. Decision 0028."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

from batchq.store import integrity

log = logging.getLogger(__name__)

AFTER = 10.0  # seconds after a start, when its peak of work is over
PATIENCE = 2.0  # seconds that `close` waits for the thread; SQLite checks for the end only once in a while
_OFTEN = 10_000  # instructions of SQLite's virtual machine between two checks whether to end


class Rereading:
    """Reads the whole database in its own thread, through its own connection."""

    def __init__(self, path: Path, *, after: float, doubted: Callable[[], None]) -> None:
        """`after`: the delay in seconds. `doubted` is called if damage is found, or if the check fails."""
        #: The first error found; None before that.
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
    """Run the check while the context is open; it is stopped, complete or not, when the context is left."""
    it = Rereading(path, after=after, doubted=doubted)
    thread = Thread(target=it.run, name="rereading", daemon=True)
    thread.start()
    try:
        yield it
    finally:
        it.end()
        thread.join(PATIENCE)
