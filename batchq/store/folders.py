"""What is done to the folders that hold the data."""

import os
from pathlib import Path


def sync(folder: Path) -> None:
    """Make what was named, renamed or removed in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # not the database
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
