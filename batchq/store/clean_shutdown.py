"""A note that a database was closed whole, and what its file was like then. Decision 0028.

A file that nobody has changed since is as whole as it was, and need not be read through before it is used.
"""

import time
from contextlib import suppress
from pathlib import Path

from batchq.store.lock import DataLock

TICK, MOST_TICKS = 0.001, 50  # seconds; the clocks of file systems go on every 4 ms or sooner


class CleanShutdownMarker:
    """It stands beside whose data it is. There is none while the database is open, and none after another end."""

    def __init__(self, lock: DataLock, path: Path) -> None:
        self._lock = lock
        self._path = path
        self._file: int | None = None

    def broken(self) -> bool:
        """Whether the file was left whole and is as it was left; and from now on the seal is gone."""
        intact = self._lock.seal is not None and self._lock.seal == self._likeness()
        if self._lock.instance is not None:
            self._lock.note(self._lock.instance)
        return intact

    def opened(self) -> None:
        """What is there now is our database, and whole."""
        self._file = self._path.stat().st_ino

    def withhold(self) -> None:
        """It is not whole after all, or nobody knows."""
        self._file = None

    def put(self) -> None:
        """After it was closed; on no other file than was opened. Where it cannot be put the next start reads first."""
        with suppress(OSError):
            if self._lock.instance is not None and self._file is not None and self._time_has_passed():
                self._lock.note(self._lock.instance, self._likeness())

    def _likeness(self) -> str | None:
        """What any change of the file changes too. None for one that is not all in one file, or not there."""
        if self._path.with_name(f"{self._path.name}-wal").exists():
            return None
        try:
            it = self._path.stat()
        except OSError:
            return None
        return f"{it.st_ino} {it.st_size} {it.st_mtime_ns} {it.st_ctime_ns}"

    def _time_has_passed(self) -> bool:
        """Since it was changed last, by the file system's clock: what came in the same tick would not show."""
        for _ in range(MOST_TICKS):
            it = self._path.stat()
            if it.st_ino != self._file or self._lock.touch() > it.st_ctime_ns:
                return it.st_ino == self._file
            time.sleep(TICK)
        return False
