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
    command.add_argument("file", type=Path, nargs="?", help="the backup; without it, the data itself, copied or moved")
    command.add_argument("--data", type=Path, help="directory of the database and the logs")
    command.add_argument(
        "--take-over", action="store_true", help="remain the same instance: its own data is served no more"
    )


def run(asked: argparse.Namespace) -> int:
    data, now = read(asked).data, SystemClock().now()
    if asked.file is None:
        return _take_over(data, now) if asked.take_over else _say_which()
    with rights_of_owner(data):  # the owner's server must be able to read the result
        done = restore(asked.file, data, now=now, take_over=asked.take_over)
    if done.kept is not None:
        print(f"what stood in {data} is kept: {done.kept}")
    if done.instance_before not in (None, done.instance):
        print(f"containers of instance {done.instance_before}, whose data stood there, are nobody's now")
    if done.instance != done.instance_of_backup:
        print(f"the backup was of instance {done.instance_of_backup}, and is {done.instance} here: containers of the")
        print("former are left alone; if its data is served no more, restore with --take-over to continue its jobs")
    print(f"{data} holds {asked.file}; `batchq serve` takes up what runs, and starts nothing before `batchq resume`")
    return 0


def _take_over(data: Path, now: datetime) -> int:
    with rights_of_owner(data):
        instance = take_over(data, now=now)
    print(f"{data} is the data of instance {instance} now; `batchq serve` starts nothing before `batchq resume`")
    return 0


def _say_which() -> NoReturn:
    raise Misused("say which backup is to be restored, or --take-over for data that was copied or moved")
