"""`batchq backup FILE`: copies the database, whether or not a server runs."""

import argparse
from pathlib import Path

from batchq.cli.arguments import read
from batchq.store.offline.backup import back_up


def add(command: argparse.ArgumentParser) -> None:
    """Copy the database as of one moment. Logs are not in the database: copy the folder `logs` afterwards."""
    command.set_defaults(run=run)
    command.add_argument("file", type=Path, help="file of the copy, outside the data directory")
    command.add_argument("--data", type=Path, help="data directory, with the database and the logs")
    command.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(asked: argparse.Namespace) -> int:
    back_up(read(asked).data, asked.file, force=asked.force)
    print(f"{asked.file}: {asked.file.stat().st_size} bytes, checked")
    return 0
