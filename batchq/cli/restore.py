"""`batchq restore FILE`: a backup in the place of the data, while no server has it."""

import argparse
from pathlib import Path
from typing import Any

from batchq.cli.options import read
from batchq.clock import SystemClock
from batchq.private_file import rights_of_owner
from batchq.store.restoring import restore


def add(commands: Any) -> None:  # noqa: ANN401 - argparse has no public name for it
    """Put a backup in the place of the data, and keep what stood there. The next start holds still until `resume`."""
    command = commands.add_parser("restore", help="put a backup in the place of the data", description=add.__doc__)
    command.set_defaults(run=run)
    command.add_argument("file", type=Path, help="the backup")
    command.add_argument("--data", type=Path, help="directory of the database and the logs")


def run(asked: argparse.Namespace) -> int:
    data = read(asked).data
    with rights_of_owner(data):  # whose server has to read it
        done = restore(asked.file, data, now=SystemClock().now())
    if done.kept is not None:
        print(f"what stood in {data} is kept: {done.kept}")
    if done.instance_before not in (None, done.instance):
        print(f"containers of instance {done.instance_before}, whose data stood there, are nobody's now")
    print(f"{data} holds {asked.file}; `batchq serve` takes up what runs, and starts nothing before `batchq resume`")
    return 0
