"""`batchq check [FILE]`: checks the database, or a backup, for damage; exit status 0 without damage, else 1."""

import argparse
from pathlib import Path

from batchq.cli.arguments import read
from batchq.cli.output import complain, line
from batchq.store import migrations
from batchq.store.database import NAME
from batchq.store.offline.check import Report, check


def add(command: argparse.ArgumentParser) -> None:
    """Check the database, or a backup, by SQLite's integrity check and row by row. Nothing is changed."""
    command.set_defaults(run=run)
    command.add_argument("file", type=Path, nargs="?", help="a backup; without it, the database of the data directory")
    command.add_argument("--data", type=Path, help="data directory, with the database and the logs")


def run(asked: argparse.Namespace) -> int:
    file = asked.file or read(asked).data / NAME
    found = check(file)
    for each in render(found):
        print(line(f"{file}: {each}"))
    return complain(f"{file} is damaged") if found.problems else 0


def render(found: Report) -> list[str]:
    newest = migrations.newest()
    older = (
        ""
        if found.schema == newest
        else f", older than schema {newest} of this version: rows can be checked after the upgrade"
    )
    jobs = ", ".join(f"{count} {status}" for status, count in sorted(found.jobs.items())) or "none"
    return [
        f"instance {found.instance}, schema {found.schema}{older}",
        f"jobs: {jobs}",
        *(found.problems or ("no damage found",)),
    ]
