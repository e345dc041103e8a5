"""Reserved disk space beside the database, released in pieces when a write finds the disk full. Decision 0033."""

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from batchq.system.host import free_disk

T = TypeVar("T")

NAME = "batchq.reserve"
SIZE = 16 * 2**20  # bytes; enough to save the ends of some thousand jobs
PIECE_BYTES = 2**20  # bytes released at a time
OPEN_BYTES = 4 * PIECE_BYTES  # bytes that opening a database may need

log = logging.getLogger(__name__)


class Reserve:
    """A file that holds disk space for the database.

    It is released a piece at a time, so that another program that fills the disk takes at most one piece before the
    write that needs the space.
    """

    def __init__(self, folder: Path, *, size: int, min_free: int) -> None:
        """`size`: bytes to reserve in `folder`; 0: none. `min_free`: bytes that must remain free besides."""
        self._folder = folder
        self._path = folder / NAME
        self._size = size
        self._min_free = min_free

    @property
    def trouble(self) -> str | None:
        """The text for /healthz if a part of the reserve is missing; else None."""
        left = self._remaining()
        if left >= self._size:
            return None
        return (
            f"{left // PIECE_BYTES} of {self._size // PIECE_BYTES} MiB are left of the disk space reserved for job ends"
        )

    def allocate(self) -> None:
        """Allocate the missing part if the disk has room. A failure is logged; the next call tries again."""
        missing = self._size - self._remaining()
        if missing <= 0:
            return
        try:
            if free_disk(self._folder) >= missing + self._min_free:
                self._allocate()
                log.info("disk space reserved for job ends: %d MiB", self._size // PIECE_BYTES)
        except OSError as why:
            log.debug("no disk space could be reserved for job ends: %s", why)  # /healthz reports that it is missing

    def release_for_open(self) -> None:
        """Release as much as opening a database needs, if the disk has no room for it."""
        while self._remaining() and free_disk(self._folder) < OPEN_BYTES and self._release():
            pass

    def retry_when_full(self, work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
        """Call `work`; while it fails because the disk is full, release a piece and call it again.

        Raises the error of the last call.
        """
        while True:
            try:
                return work(connection)
            except sqlite3.OperationalError as why:
                if not self._is_full(why) or not self._release():
                    raise

    def _is_full(self, why: sqlite3.OperationalError) -> bool:
        """SQLite reports a full disk as SQLITE_FULL, or as SQLITE_IOERR where it maps a file into memory."""
        primary = getattr(why, "sqlite_errorcode", 0) & 0xFF
        if primary == sqlite3.SQLITE_IOERR:
            return free_disk(self._folder) < PIECE_BYTES
        return primary == sqlite3.SQLITE_FULL

    def _release(self) -> bool:
        """Release one piece. Returns False if nothing is left, or the file cannot be changed."""
        left = self._remaining()
        if not left:
            return False
        try:
            with self._opened() as descriptor:
                os.ftruncate(descriptor, max(left - PIECE_BYTES, 0))
        except OSError as why:
            log.warning("reserved disk space could not be released: %s", why)
            return False
        log.warning("disk full: released 1 MiB of the reserved space, %d MiB are left", left // PIECE_BYTES - 1)
        return True

    def _allocate(self) -> None:
        with self._opened() as descriptor:
            try:
                os.posix_fallocate(descriptor, 0, self._size)
            except OSError as why:
                if why.errno == errno.ENOSPC:  # another program took the space meanwhile; a partial reserve is useless
                    os.ftruncate(descriptor, 0)
                raise

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """O_NOFOLLOW, because truncating the target of a symbolic link would destroy another program's file."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)  # not the database
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _remaining(self) -> int:
        try:
            return self._path.lstat().st_size if self._size else 0
        except OSError:
            return 0
