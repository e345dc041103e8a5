"""Reserved disk space beside the database, released in pieces when a write finds the disk full. Decision 0033."""

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from batchq.store.log_files import free

T = TypeVar("T")

NAME = "batchq.reserve"
SIZE = 16 * 2**20  # bytes; enough to save the ends of some thousand jobs
PIECE = 2**20  # bytes released at a time
AT_START = 4 * PIECE  # bytes that opening a database may need

log = logging.getLogger(__name__)


class Reserve:
    """A file that holds disk space for the database.

    It is released a piece at a time, so that another program that fills the disk takes at most one piece before the
    write that needs the space.
    """

    def __init__(self, folder: Path, *, size: int, spare: int) -> None:
        """`size`: bytes to reserve in `folder`; 0: none. `spare`: bytes that must remain free besides."""
        self._folder = folder
        self._path = folder / NAME
        self._size = size
        self._spare = spare

    @property
    def trouble(self) -> str | None:
        """The text for /healthz if a part of the reserve is missing; else None."""
        left = self._left()
        if left >= self._size:
            return None
        return f"{left // PIECE} of {self._size // PIECE} MiB are left of the space reserved for saving job ends"

    def make(self) -> None:
        """Allocate the missing part if the disk has room. A failure is logged; the next call tries again."""
        missing = self._size - self._left()
        if missing <= 0:
            return
        try:
            if free(self._folder) >= missing + self._spare:
                self._allocate()
                log.info("%d MiB of the disk are reserved for saving job ends", self._size // PIECE)
        except OSError as why:
            log.debug("no space could be reserved for saving job ends: %s", why)  # /healthz reports that it is missing

    def make_room_to_open(self) -> None:
        """Release as much as opening a database needs, if the disk has no room for it."""
        while self._left() and free(self._folder) < AT_START and self._release():
            pass

    def saving(self, work: Callable[[], T]) -> T:
        """Call `work`; while it fails because the disk is full, release a piece and call it again.

        Raises the error of the last call.
        """
        while True:
            try:
                return work()
            except sqlite3.OperationalError as why:
                if not self._is_full(why) or not self._release():
                    raise

    def _is_full(self, why: sqlite3.OperationalError) -> bool:
        """SQLite reports a full disk as SQLITE_FULL, or as SQLITE_IOERR where it maps a file into memory."""
        primary = getattr(why, "sqlite_errorcode", 0) & 0xFF
        return primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and free(self._folder) < PIECE)

    def _release(self) -> bool:
        """Release one piece. Returns False if nothing is left, or the file cannot be changed."""
        left = self._left()
        if not left:
            return False
        try:
            self._resize(max(left - PIECE, 0))
        except OSError as why:
            log.warning("reserved disk space could not be given up: %s", why)
            return False
        log.warning("the disk is full: 1 MiB of the reserved space is given up, %d MiB are left", left // PIECE - 1)
        return True

    def _allocate(self) -> None:
        with self._opened() as descriptor:
            try:
                os.posix_fallocate(descriptor, 0, self._size)
            except OSError as why:
                if why.errno == errno.ENOSPC:  # another program took the space meanwhile; a partial reserve is useless
                    os.ftruncate(descriptor, 0)
                raise

    def _resize(self, size: int) -> None:
        with self._opened() as descriptor:
            os.ftruncate(descriptor, size)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """O_NOFOLLOW, because truncating the target of a symbolic link would destroy another program's file."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)  # not the database
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _left(self) -> int:
        try:
            return self._path.lstat().st_size if self._size else 0
        except OSError:
            return 0
