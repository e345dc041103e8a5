"""Upgrade, backup, restore and retention are killed, or their disk fails, at each of their system calls, by strace.

The data is then as it was before the command, or as the command changes it. A second run of the command succeeds, and
leaves no other files.
"""

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing, nullcontext
from datetime import timedelta
from itertools import count

import pytest

from batchq.cli.main import main
from batchq.cli.output import print_error
from batchq.domain.enums import FINISHED
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.engine.pruner import Pruner
from batchq.errors import BatchqError
from batchq.ports.logs import LogLine
from batchq.store import lock, statements
from batchq.store.backup import back_up, check_file
from batchq.store.database import NAME
from batchq.store.integrity import copy_path
from batchq.store.log_files import LogFiles
from batchq.store.sqlite_store import SqliteStore
from tests.store import second_version
from tests.support import every_table
from tests.support.clock import VirtualClock
from tests.support.service import FORKS, PATIENCE
from tests.support.tracing import injected

pytestmark = [pytest.mark.strace, pytest.mark.timeout(900)]

ERRORS = "EIO", "ENOSPC"
EARLIER, LATER = second_version.VERSION - 1, second_version.VERSION
BEFORE, AFTER = ("changed", EARLIER), ("a-job", EARLIER)
OPENED = {lock.NAME, "logs", NAME, f"{NAME}-wal", f"{NAME}-shm"}
LOCK = shutil.ignore_patterns(lock.NAME)  # it names its own inode, and a copied one has to be taken over


async def open_and_close(data):
    await (await SqliteStore.open(data)).close()


def upgrade(data):
    statements.MIGRATIONS = second_version.STEPS
    asyncio.run(open_and_close(data))


def backup(data):
    return main(["backup", str(data.parent / "copy.db"), "--data", str(data), "--force"])


def restore(data):
    return main(["restore", str(data.parent / "copy.db"), "--data", str(data)])


def take_over(data):
    return main(["restore", "--take-over", "--data", str(data)])


def retention(data):
    """Finished jobs and their logs are deleted."""
    asyncio.run(prune(data))


async def prune(data):
    store = await SqliteStore.open(data)
    try:
        with closing(LogFiles(data / "logs")) as archive:
            pruner = Pruner(
                store=store,
                archive=archive,
                clock=VirtualClock(),
                retention=-timedelta(days=1),
                unit_lock=asyncio.Lock(),
                jobs_with_containers=frozenset,
            )
            await pruner.prune_once()
    finally:
        await store.close()


#: For each command the file that it changes, and the content of this file afterwards.
COMMANDS = {
    upgrade: (f"data/{NAME}", ("changed", LATER)),
    backup: ("copy.db", BEFORE),
    restore: (f"data/{NAME}", AFTER),
    take_over: (f"data/{NAME}", BEFORE),
    retention: (f"data/{NAME}", BEFORE),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A data directory that was changed since its backup was made."""
    source = tmp_path_factory.mktemp("source")
    asyncio.run(every_table.fill(source / "data"))
    back_up(source / "data", source / "copy.db", force=False)
    with closing(sqlite3.connect(source / "data" / NAME, isolation_level=None)) as connection:
        connection.execute("UPDATE jobs SET name = 'changed'")
    (source / "data" / "logs").mkdir()
    log = LogFiles(source / "data" / "logs")
    asyncio.run(log.append(container_tags(every_table.FINISHED)[0].log_id, [LogLine(at=1, message="a line")]))
    log.close()
    return source


def run(command, data, ready):
    """Run the command in a process of its own, once strace is attached, and exit with its status."""
    os.dup2(os.open(data.parent / "errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), sys.stderr.fileno())
    ready.recv()
    try:
        sys.exit(command(data))
    except BatchqError as why:
        sys.exit(print_error(str(why)))


def outcome(command, data, *injections):
    """The exit status of a command, and what it wrote to stderr."""
    start, ready = FORKS.Pipe()
    process = FORKS.Process(target=run, args=(command, data, ready))
    process.start()
    with injected(process.pid, *injections) if injections else nullcontext():
        start.send(None)
        process.join(PATIENCE)
    return process.exitcode, (data.parent / "errors").read_text()


def content(database):
    """The names of the jobs, and the schema. Reading them recovers a database whose writer was killed."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (names,) = connection.execute("SELECT group_concat(DISTINCT name) FROM jobs").fetchone()
        return names, statements.schema_version(connection)


def content_of_copy(folder, file):
    """As `content`, without a recovery of the database itself: that is left to the command."""
    copied = shutil.copytree(folder, folder.with_name("copied"))
    try:
        return content(copied / file)
    finally:
        shutil.rmtree(copied)


def check_folder(command, folder):
    """The command has changed its file. Each other file is a database that was kept, and no second name of the file."""
    file, after = COMMANDS[command]
    assert content(folder / file) == after
    kept = sorted(path for path in (folder / "data").iterdir() if path.name not in OPENED)
    assert [path.name for path in kept if path.samefile(folder / file)] == []
    if command is retention:
        assert [*(folder / "data" / "logs").glob("*/*.log")] == []
        assert check_file(folder / file).problems == ()
        assert set(check_file(folder / file).jobs) & FINISHED == set()
    if command is upgrade:
        assert [path.name for path in kept] == [copy_path(folder / file, EARLIER).name]
    if command is restore:
        assert all(path.name.startswith(f"{NAME}.before-") for path in kept)
        assert content(kept[0]) == BEFORE
    else:
        assert {content(path) for path in kept} <= {BEFORE}


def fault(command, source, folder, injection):
    """Run the command with the fault, then again without. Returns the first outcome."""
    shutil.copytree(source, folder, ignore=None if command is take_over else LOCK)
    file, after = COMMANDS[command]

    status, errors = outcome(command, folder / "data", injection)
    assert content_of_copy(folder, file) in {content_of_copy(source, file), after}
    status_again, errors_again = outcome(command, folder / "data")

    assert status_again == 0, errors_again
    check_folder(command, folder)
    shutil.rmtree(folder)
    return status, errors


@pytest.mark.fault("DB11")
@pytest.mark.parametrize("call", ["fdatasync", "fsync", "link", "rename", "unlink", "ftruncate"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_a_command_stopped_at_any_call_leaves_old_or_new_data_and_succeeds_later(tmp_path, source, command, call):
    for number in count(1):
        status, _ = fault(command, source, tmp_path / "killed", f"{call}:signal=KILL:when={number}")
        if status == 0:
            break
        assert status == -signal.SIGKILL
        error = ERRORS[number % len(ERRORS)]
        status, errors = fault(command, source, tmp_path / "failed", f"{call}:error={error}:when={number}")
        assert status == 0 or (errors.startswith("batchq: ") and errors.count("\n") == 1), errors
    assert number > 1 or call != "fdatasync", "each command writes a database, so at least one fault was injected"
