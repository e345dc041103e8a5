"""The clean-shutdown marker: after a clean shutdown, the integrity check at the next start is skipped. Decision 0028.

The marker holds the inode, size and times of the database file. If they are unchanged, the file has not been written
since the shutdown.
"""

import time
from contextlib import suppress
from pathlib import Path

from batchq.store.lock import DataLock

TICK, MOST_TICKS = 0.001, 50  # seconds; the clocks of file systems advance at least every 4 ms


class CleanShutdownMarker:
    """The marker in the lock file. It is absent while the database is open, and after an unclean shutdown."""

    def __init__(self, lock: DataLock, path: Path) -> None:
        self._lock = lock
        self._path = path
        self._file: int | None = None

    def broken(self) -> bool:
        """Remove the marker. Returns whether there was one and the database file is unchanged since."""
        intact = self._lock.seal is not None and self._lock.seal == self._likeness()
        if self._lock.instance is not None:
            self._lock.note(self._lock.instance)
        return intact

    def opened(self) -> None:
        """Record that the database was opened and is undamaged."""
        self._file = self._path.stat().st_ino

    def withhold(self) -> None:
        """Write no marker at the shutdown: the database is damaged, or its integrity is unknown."""
        self._file = None

    def put(self) -> None:
        """Write the marker, after the database was closed, if its file is still the one that was opened.

        If that fails, the next start runs the integrity check first.
        """
        with suppress(OSError):
            if self._lock.instance is not None and self._file is not None and self._time_has_passed():
                self._lock.note(self._lock.instance, self._likeness())

    def _likeness(self) -> str | None:
        """The inode, size and times of the file, which any change of it changes too.

        None if the file does not exist, or a write-ahead log is beside it.
        """
        if self._path.with_name(f"{self._path.name}-wal").exists():
            return None
        try:
            it = self._path.stat()
        except OSError:
            return None
        return f"{it.st_ino} {it.st_size} {it.st_mtime_ns} {it.st_ctime_ns}"

    def _time_has_passed(self) -> bool:
        """Wait until the file system's clock has advanced since the last change.

        A change in the same tick of that clock would not change the file's times. Returns False if the file was
        replaced, or the clock did not advance in time.
        """
        for _ in range(MOST_TICKS):
            it = self._path.stat()
            if it.st_ino != self._file or self._lock.touch() > it.st_ctime_ns:
                return it.st_ino == self._file
            time.sleep(TICK)
        return False
