"""The commands on the database file: `batchq backup FILE`, `batchq check [FILE]` and `batchq restore [FILE]`."""

import os
from argparse import ArgumentParser, Namespace
from datetime import datetime
from pathlib import Path

from batchq.cli.output import print_error
from batchq.cli.server_settings import settings_of
from batchq.errors import UsageError
from batchq.store import statements
from batchq.store.backup import Report, back_up, take_over
from batchq.store.backup import check_file as check_database
from batchq.store.backup import restore_backup as restore_database
from batchq.store.database import NAME
from batchq.system.clock import SystemClock
from batchq.system.escapes import escape
from batchq.system.private_file import rights_of_owner


def _add_data(command: ArgumentParser) -> None:
    command.add_argument("--data", type=Path, help="data directory, with the database and the logs")


def add_backup(command: ArgumentParser) -> None:
    """Copy the database as of one moment. Logs are not in the database: copy the folder `logs` afterwards."""
    command.add_argument("file", type=Path, help="file of the copy, outside the data directory")
    _add_data(command)
    command.add_argument("--force", action="store_true", help="overwrite an existing file")


def run_backup(args: Namespace) -> None:
    back_up(settings_of(args).data, args.file, force=args.force)
    print(f"{args.file}: {args.file.stat().st_size} bytes, checked")


def add_check(command: ArgumentParser) -> None:
    """Check the database, or a backup, by SQLite's integrity check and row by row. Nothing is changed."""
    command.add_argument("file", type=Path, nargs="?", help="a backup; without it, the database of the data directory")
    _add_data(command)


def run_check(args: Namespace) -> int:
    """Exit status 0 without damage, else 1."""
    file = args.file or settings_of(args).data / NAME
    report = check_database(file)
    for each in _render_report(report):
        print(escape(f"{file}: {each}"))
    return print_error(f"{file} is damaged") if report.problems else 0


def _render_report(report: Report) -> list[str]:
    newest = statements.newest_schema()
    older = f", older than schema {newest} of this version: rows can be checked after the upgrade"
    jobs = ", ".join(f"{count} {status}" for status, count in sorted(report.jobs.items())) or "none"
    return [
        f"instance {report.instance}, schema {report.schema}{'' if report.schema == newest else older}",
        f"jobs: {jobs}",
        *(report.problems or ("no damage found",)),
    ]


def add_restore(command: ArgumentParser) -> None:
    """Replace the database by a backup; the old file is kept. The next server starts in safe mode.

    In another directory than its own the backup becomes a new instance, which ignores the containers of the old one.
    """
    command.add_argument(
        "file", type=Path, nargs="?", help="the backup; without it, and with --take-over: the copied or moved data"
    )
    _add_data(command)
    command.add_argument(
        "--take-over", action="store_true", help="keep the instance; no server may use its original data any more"
    )


def run_restore(args: Namespace) -> None:
    """Replace the database while no server uses it."""
    data, now = settings_of(args).data, SystemClock().now()
    if args.file is None:
        _take_over(data, now, confirmed=args.take_over)
        return
    exists = args.file.exists()
    with rights_of_owner(data):  # the owner's server must be able to read the result
        if exists and not os.access(args.file, os.R_OK, effective_ids=True):
            raise UsageError(
                f"the owner of {data}, with whose rights the database is restored, cannot read {args.file}: "
                "copy the backup to a folder that this user can read"
            )
        done = restore_database(args.file, data, now=now, take_over=args.take_over)
    if done.kept is not None:
        print(f"the previous database of {data} is kept as {done.kept}")
    if done.instance_before not in (None, done.instance):
        print(f"containers of instance {done.instance_before}, the previous database, are no longer managed")
    if done.instance != done.instance_of_backup:
        print(
            f"the backup is of instance {done.instance_of_backup}, the restored database is instance {done.instance}:"
        )
        print("it ignores the containers of the other; to continue the other's jobs, restore with --take-over")
    print(
        f"{data} is restored; `batchq serve` reattaches containers, and starts no job before `batchq leave-safe-mode`"
    )


def _take_over(data: Path, now: datetime, *, confirmed: bool) -> None:
    if not confirmed:
        raise UsageError("give a backup, or --take-over for a data directory that was copied or moved")
    with rights_of_owner(data):
        instance = take_over(data, now=now)
    print(
        f"{data} is the data of instance {instance} now; `batchq serve` starts no job before `batchq leave-safe-mode`"
    )
