"""`batchq backup FILE`: copies the database, whether or not a server runs."""

import argparse
from pathlib import Path

from batchq.cli.arguments import read
from batchq.store.offline.backup import back_up


def add(command: argparse.ArgumentParser) -> None:
    """Copy the database as of one moment. Logs are not in the database: copy the folder `logs` afterwards."""
    command.set_defaults(run=run)
    command.add_argument("file", type=Path, help="where the copy goes, outside of the data")
    command.add_argument("--data", type=Path, help="directory of the database and the logs")
    command.add_argument("--force", action="store_true", help="replace a file that is there already")


def run(asked: argparse.Namespace) -> int:
    back_up(read(asked).data, asked.file, force=asked.force)
    print(f"{asked.file}: {asked.file.stat().st_size} bytes, whole")
    return 0
