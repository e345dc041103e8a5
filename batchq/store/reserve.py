"""Disk space set aside beside the database, given up in pieces when a write finds the disk full. Decision 0033."""

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
SIZE = 16 * 2**20  # bytes: the ends of some thousand jobs
PIECE = 2**20  # bytes
AT_START = 4 * PIECE  # bytes that opening a database may need

log = logging.getLogger(__name__)


class Reserve:
    """A file of `size` bytes in `folder`, made while `spare` bytes stay free beside it. 0 for `size`: there is none.

    A piece at a time is given up: whatever else fills the disk takes at most that before the write that needs it.
    """

    def __init__(self, folder: Path, *, size: int, spare: int) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._size = size
        self._spare = spare

    @property
    def trouble(self) -> str | None:
        """How much of it is missing, None when it is whole."""
        left = self._left()
        if left >= self._size:
            return None
        return f"{left // PIECE} of {self._size // PIECE} MiB are left of the space reserved for saving job ends"

    def make(self) -> None:
        """Bring it to its size if there is room for that; what fails is tried again with the next call."""
        missing = self._size - self._left()
        if missing <= 0:
            return
        try:
            if free(self._folder) >= missing + self._spare:
                self._allocate()
                log.info("%d MiB of the disk are reserved for saving job ends", self._size // PIECE)
        except OSError as why:
            log.debug("no space could be reserved for saving job ends: %s", why)  # health reports that it is missing

    def make_room_to_open(self) -> None:
        """Give up some of it where the disk has nothing left to open a database with."""
        while self._left() and free(self._folder) < AT_START and self._release():
            pass

    def saving(self, work: Callable[[], T]) -> T:
        """Do the work, and again with a piece less whenever the disk was full. Raises what the last try did."""
        while True:
            try:
                return work()
            except sqlite3.OperationalError as why:
                if not self._is_full(why) or not self._release():
                    raise

    def _is_full(self, why: sqlite3.OperationalError) -> bool:
        """SQLite reports a full disk as that, or as an input/output error where it maps a file into memory."""
        primary = getattr(why, "sqlite_errorcode", 0) & 0xFF
        return primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and free(self._folder) < PIECE)

    def _release(self) -> bool:
        """A piece less; False when there is none left."""
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
                if why.errno == errno.ENOSPC:  # another program was faster; what was allocated would be of no use half
                    os.ftruncate(descriptor, 0)
                raise

    def _resize(self, size: int) -> None:
        with self._opened() as descriptor:
            os.ftruncate(descriptor, size)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Its own file: what a link leads to is not ours to cut off."""
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
