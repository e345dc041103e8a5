"""An attack on a path that is checked by its name: a folder and a symlink are exchanged again and again."""

import ctypes
import errno
import os
import threading
from contextlib import contextmanager
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE = -100, 2
_renameat2 = ctypes.CDLL(None, use_errno=True).renameat2


def exchange(one, other):
    """Exchange two paths atomically, by one system call."""
    if _renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), errno.errorcode[ctypes.get_errno()])


@contextmanager
def exchanging(one, other):
    """Exchange the paths again and again during the context."""
    ended = threading.Event()

    def attack():
        while not ended.is_set():
            exchange(one, other)

    attacker = threading.Thread(target=attack, daemon=True)
    attacker.start()
    try:
        yield
    finally:
        ended.set()
        attacker.join()


def open_below(folder):
    """The numbers of this process's descriptors of the folder, and of files in it."""
    return [path.name for path in Path("/proc/self/fd").iterdir() if _target(path).startswith(str(folder))]


def _target(descriptor):
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # the descriptor of the list itself
        return ""
