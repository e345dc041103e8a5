"""`batchq restore [FILE]`: replaces the database by a backup, while no server uses it."""

import argparse
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from batchq.cli.arguments import read
from batchq.clock import SystemClock
from batchq.errors import Misused
from batchq.private_file import rights_of_owner
from batchq.store.offline.restore import restore, take_over


def add(command: argparse.ArgumentParser) -> None:
    """Replace the database by a backup; the old file is kept. The next server starts no job before `batchq resume`.

    In another directory than its own the backup becomes a new instance, which ignores the containers of the old one.
    """
    command.set_defaults(run=run)
    command.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="the backup; without it, and with --take-over: the copied or moved data directory",
    )
    command.add_argument("--data", type=Path, help="data directory, with the database and the logs")
    command.add_argument(
        "--take-over", action="store_true", help="keep the instance; no server may use its original data any more"
    )


def run(asked: argparse.Namespace) -> int:
    data, now = read(asked).data, SystemClock().now()
    if asked.file is None:
        return _take_over(data, now) if asked.take_over else _say_which()
    with rights_of_owner(data):  # the owner's server must be able to read the result
        done = restore(asked.file, data, now=now, take_over=asked.take_over)
    if done.kept is not None:
        print(f"the previous database of {data} is kept as {done.kept}")
    if done.instance_before not in (None, done.instance):
        print(f"containers of instance {done.instance_before}, the previous database, are no longer managed")
    if done.instance != done.instance_of_backup:
        print(
            f"the backup is of instance {done.instance_of_backup}, the restored database is instance {done.instance}:"
        )
        print("it ignores the containers of the other; to continue the other's jobs, restore with --take-over")
    print(f"{data} is restored; `batchq serve` reattaches running containers, and starts no job before `batchq resume`")
    return 0


def _take_over(data: Path, now: datetime) -> int:
    with rights_of_owner(data):
        instance = take_over(data, now=now)
    print(f"{data} is the data of instance {instance} now; `batchq serve` starts no job before `batchq resume`")
    return 0


def _say_which() -> NoReturn:
    raise Misused("give a backup, or --take-over for a data directory that was copied or moved")
