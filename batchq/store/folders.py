"""What is done to the folders that hold the data."""

import os
from pathlib import Path

from batchq.errors import StoreFailed


def sync(folder: Path) -> None:
    """Make what was named, renamed or removed in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # not the database
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free(folder: Path) -> int:
    """Bytes that a user who is not root may still write there. Raises StoreFailed."""
    try:
        disk = os.statvfs(folder)
    except OSError as why:
        raise StoreFailed(f"the disk of {folder} does not tell how much is free: {why}") from why
    return disk.f_bavail * disk.f_frsize
