"""A backup is consistent and private, whatever the server does meanwhile."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

from batchq.cli.main import main
from batchq.errors import StoreRefused
from batchq.ports.jobs import Changes
from batchq.store.backup import back_up, check_file
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.house.rooms import ROOT
from tests.support.builders import job, moment

WARM = 100  # jobs saved before a backup is made
ROUNDS = 5


@contextmanager
def busy(data):
    """A process that saves jobs as fast as it can. It yields a function that waits for some."""
    command = [sys.executable, "-m", "tests.store.writer", str(data)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1) as writer:
        try:
            yield lambda jobs: [int(writer.stdout.readline()) for _ in range(jobs)][-1]
        finally:
            writer.send_signal(signal.SIGKILL)


def orders(file, table="jobs"):
    with closing(sqlite3.connect(file)) as connection:
        return [order for (order,) in connection.execute(f"SELECT sequence FROM {table} ORDER BY sequence")]


async def filled(data):
    store = await SqliteStore.open(data)
    some = tuple(job(number=number) for number in range(3))
    await store.commit(Changes(inserted=some, history=tuple(map(moment, some))))
    await store.close()


@pytest.fixture
async def data(tmp_path):
    await filled(tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.process
@pytest.mark.fault("DB14")
def test_a_backup_under_load_has_all_acknowledged_jobs_and_no_partial_commit(tmp_path):
    with busy(tmp_path / "data") as acknowledged:
        made = []
        for number in range(ROUNDS):
            acked = acknowledged(WARM)
            back_up(tmp_path / "data", tmp_path / f"{number}.db", force=False)
            made.append((tmp_path / f"{number}.db", acked))

    for file, acked in made:
        assert check_file(file).problems == ()
        kept = orders(file)
        assert kept == list(range(len(kept)))
        assert acked < len(kept)
        assert orders(file, "job_history") == orders(file, "job_specs") == kept


@pytest.mark.process
@pytest.mark.fault("DB15")
async def test_backups_and_checks_beside_a_killed_server_lose_no_data(tmp_path):
    with busy(tmp_path / "data") as acknowledged:
        for number in range(ROUNDS):
            acknowledged(WARM)
            check_file(tmp_path / "data" / NAME)
            back_up(tmp_path / "data", tmp_path / f"{number}.db", force=False)
        acked = acknowledged(WARM)

    store = await SqliteStore.open(tmp_path / "data")
    assert await store.last_sequence() >= acked
    await store.close()


@pytest.mark.fault("SE14")
def test_a_backup_is_one_file_that_only_its_owner_may_read(data, tmp_path):
    before = os.umask(0)
    back_up(data, tmp_path / "copy.db", force=False)
    os.umask(before)

    assert oct((tmp_path / "copy.db").stat().st_mode & 0o777) == "0o600"
    assert check_file(tmp_path / "copy.db").instance == check_file(data / NAME).instance
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "data"]


@pytest.mark.process
def test_a_backup_has_the_write_ahead_log_of_a_killed_server(tmp_path):
    with busy(tmp_path / "data") as acknowledged:
        acked = acknowledged(WARM)

    back_up(tmp_path / "data", tmp_path / "copy.db", force=False)

    assert (tmp_path / "data" / f"{NAME}-wal").stat().st_size > 0
    assert orders(tmp_path / "copy.db")[-1] >= acked


def test_an_existing_file_is_replaced_only_by_force(data, tmp_path):
    (tmp_path / "copy.db").write_text("dear")

    with pytest.raises(StoreRefused, match="--force"):
        back_up(data, tmp_path / "copy.db", force=False)
    kept = (tmp_path / "copy.db").read_text()
    back_up(data, tmp_path / "copy.db", force=True)

    assert kept == "dear"
    assert check_file(tmp_path / "copy.db").problems == ()


def test_a_backup_inside_the_data_directory_is_refused(data, tmp_path):
    (tmp_path / "link").symlink_to(data)

    for file in (data / NAME, data / "copy.db", tmp_path / "link" / NAME):
        with pytest.raises(StoreRefused, match="is inside"):
            back_up(data, file, force=True)


def test_damaged_data_is_not_backed_up(data, tmp_path):
    whole = bytearray((data / NAME).read_bytes())
    whole[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    (data / NAME).write_bytes(whole)

    status = main(["backup", str(tmp_path / "copy.db"), "--data", str(data)])

    assert status == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize("there", [False, True])
def test_a_missing_database_is_not_backed_up(tmp_path, there, capsys):
    (tmp_path / "data").mkdir() if there else None

    status = main(["backup", str(tmp_path / "copy.db"), "--data", str(tmp_path / "data")])

    assert status == 1
    assert capsys.readouterr().err.endswith("batchq.db does not exist\n")
    assert not (tmp_path / "copy.db").exists()


def test_an_unwritable_target_is_reported_in_one_line(data, tmp_path, capsys):
    status = main(["backup", str(tmp_path / "nowhere" / "copy.db"), "--data", str(data)])

    assert status == 1
    assert capsys.readouterr().err == f"batchq: {tmp_path}/nowhere is not a directory\n"


def test_the_backup_command_reports_the_file(data, tmp_path, capsys):
    status = main(["backup", str(tmp_path / "copy.db"), "--data", str(data)])

    assert status == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path}/copy.db: ")
