"""A restore replaces the data completely or not at all, and keeps the replaced database."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from batchq.cli.main import main
from batchq.cli.output import MISUSED
from batchq.errors import StoreRefused
from batchq.ports.history import FeedFilter
from batchq.ports.jobs import Changes, Restoration
from batchq.store import backup as restoring
from batchq.store import inspection, lock, statements
from batchq.store.backup import back_up, check_file, restore_backup
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.store import second_version
from tests.support.builders import NOON, job, job_id, moment

UNPRIVILEGED = 65534


@pytest.fixture
async def data(tmp_path):
    """Data that has gone on for a job since its backup was made."""
    data = tmp_path / "data"
    store = await SqliteStore.open(data)
    await store.commit(Changes(inserted=(job(number=0),)))
    back_up(data, tmp_path / "copy.db", force=False)
    await store.commit(Changes(inserted=(job(number=1),)))
    await store.close()
    return data


@pytest.fixture
def copy(data):
    return data.parent / "copy.db"


async def last_sequence(data):
    store = await SqliteStore.open(data)
    order, restoration = await store.last_sequence(), await store.restoration()
    await store.close()
    return order, restoration


async def test_a_restore_installs_the_backup_and_records_it(data, copy):
    done = restore_backup(copy, data, now=NOON, take_over=False)

    assert await last_sequence(data) == (0, Restoration(at=NOON))
    assert done.instance == done.instance_before
    assert oct((data / NAME).stat().st_mode & 0o777) == "0o600"


async def test_the_replaced_database_is_kept_under_a_dated_name(data, copy):
    done = restore_backup(copy, data, now=NOON, take_over=False)

    assert done.kept == data / "batchq.db.before-20261121T120000000000Z"
    assert check_file(done.kept).problems == ()
    restore_backup(done.kept, data, now=NOON + (NOON - NOON.replace(hour=11)), take_over=False)
    assert (await last_sequence(data))[0] == 1


async def test_the_write_ahead_log_of_a_killed_server_is_kept_and_not_applied_to_the_backup(tmp_path, data, copy):
    store = await SqliteStore.open(data)
    await store.commit(Changes(inserted=(job(number=2),)))
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in (NAME, f"{NAME}-wal"):  # as kill -9 leaves them
        (killed / name).write_bytes((data / name).read_bytes())
    await store.close()

    done = restore_backup(copy, killed, now=NOON, take_over=False)

    assert (await last_sequence(killed))[0] == 0
    with closing(sqlite3.connect(done.kept)) as kept:
        assert kept.execute("SELECT max(sequence) FROM jobs").fetchone() == (2,)


async def test_damaged_data_is_replaced_and_kept_unchanged(data, copy):
    (data / NAME).write_bytes(b"no database\n" * 1000)

    done = restore_backup(copy, data, now=NOON, take_over=False)

    assert (await last_sequence(data))[0] == 0
    assert done.kept.read_bytes() == b"no database\n" * 1000


async def test_the_write_ahead_log_of_a_lost_database_is_not_applied_to_the_backup(data, copy):
    (data / NAME).unlink()
    (data / f"{NAME}-wal").write_bytes(b"of the lost one")

    done = restore_backup(copy, data, now=NOON, take_over=False)

    assert done.kept is None
    assert (data / "batchq.db.before-20261121T120000000000Z-wal").read_bytes() == b"of the lost one"
    assert (await last_sequence(data))[0] == 0


async def test_data_in_use_by_a_reader_is_not_replaced(data, copy):
    """A server with the database open would write to the restored files."""
    with closing(sqlite3.connect(data / NAME, timeout=0)) as reader:
        reader.execute("SELECT * FROM jobs").fetchone()
        with pytest.raises(StoreRefused, match="cannot be replaced"):
            restore_backup(copy, data, now=NOON, take_over=False)

    assert await last_sequence(data) == (1, Restoration())


async def test_a_backup_of_an_earlier_schema_is_migrated_in_a_new_directory(tmp_path, copy, monkeypatch):
    monkeypatch.setattr(statements, "MIGRATIONS", second_version.STEPS)

    done = restore_backup(copy, tmp_path / "elsewhere", now=NOON, take_over=False)

    assert (done.kept, done.instance_before) == (None, None)
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == [NAME, lock.NAME]
    assert check_file(tmp_path / "elsewhere" / NAME).schema == second_version.VERSION
    assert (await last_sequence(tmp_path / "elsewhere"))[0] == 0


async def test_a_restore_beside_a_server_is_refused(data, copy):
    store = await SqliteStore.open(data)

    with pytest.raises(StoreRefused, match="another batchq server uses"):
        restore_backup(copy, data, now=NOON, take_over=False)

    assert await store.jobs([job_id(1)]) != {}
    await store.close()


WRONG = {
    "UPDATE jobs SET state = '{'": "is damaged",
    "DELETE FROM job_specs": "is damaged",
    "PRAGMA application_id = 7": "of another program",
    f"PRAGMA user_version = {statements.newest_schema() + 1}": "newer batchq",
}


@pytest.mark.parametrize(("wrong", "why"), WRONG.items(), ids=WRONG)
async def test_a_damaged_backup_is_refused_and_the_data_is_unchanged(data, copy, wrong, why):
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute(wrong)

    with pytest.raises(StoreRefused, match=why):
        restore_backup(copy, data, now=NOON, take_over=False)

    assert sorted(path.name for path in data.iterdir()) == [NAME, lock.NAME]
    assert await last_sequence(data) == (1, Restoration())


async def test_a_restore_killed_before_its_last_step_changes_nothing(data, copy, monkeypatch):
    """The last step is one rename, of a file that is durable."""
    monkeypatch.setattr(restoring, "replace_database", killed)

    with pytest.raises(KeyboardInterrupt):
        restore_backup(copy, data, now=NOON, take_over=False)

    assert await last_sequence(data) == (1, Restoration())


@pytest.mark.parametrize("restores_again", [False, True])
async def test_what_a_killed_restore_has_left_is_removed_by_the_next_server_or_restore(data, copy, restores_again):
    """A database with two names has a write-ahead log at one of them only."""
    kept = restore_backup(copy, data, now=NOON, take_over=False).kept
    (data / f"{NAME}.before-second-name").hardlink_to(data / NAME)
    (data / f".{NAME}.killed.part-journal").touch()

    if restores_again:
        kept = restore_backup(copy, data, now=NOON.replace(hour=13), take_over=False).kept
    await last_sequence(data)

    names = {path.name for path in data.iterdir()}
    assert {NAME, lock.NAME, kept.name} <= names
    assert names.isdisjoint({f"{NAME}.before-second-name", f".{NAME}.killed.part-journal"})


def killed(*_):
    raise KeyboardInterrupt


async def test_the_restore_command_reports_its_result(data, copy, capsys):
    status = main(["restore", str(copy), "--data", str(data)])

    printed = capsys.readouterr().out.splitlines()
    assert status == 0
    assert printed[0].startswith(f"the previous database of {data} is kept as {data}/batchq.db.before-")
    assert printed[1].startswith(f"{data} is restored; ")


async def test_the_restore_command_reports_containers_of_the_replaced_instance(tmp_path, data, copy, capsys):
    other = await SqliteStore.open(tmp_path / "other")
    await other.close()

    main(["restore", str(copy), "--data", str(tmp_path / "other")])

    assert (
        f"containers of instance {other.instance}, the previous database, are no longer managed"
        in capsys.readouterr().out
    )


@pytest.mark.fault("CO02")
async def test_in_another_directory_a_backup_becomes_a_new_instance(tmp_path, data, copy, capsys):
    own = check_file(data / NAME).instance

    main(["restore", str(copy), "--data", str(tmp_path / "other")])
    main(["restore", str(copy), "--data", str(tmp_path / "taken-over"), "--take-over"])
    main(["restore", str(copy), "--data", str(data)])

    assert check_file(tmp_path / "other" / NAME).instance != own
    assert check_file(tmp_path / "taken-over" / NAME).instance == check_file(data / NAME).instance == own
    assert f"the backup is of instance {own}" in capsys.readouterr().out


@pytest.mark.fault("CO02")
async def test_a_copied_directory_is_refused_until_take_over(tmp_path, data):
    copied, moved = tmp_path / "copied", tmp_path / "moved"
    shutil.copytree(data, copied)
    data.rename(moved)

    with pytest.raises(StoreRefused, match="is a copy of the data of instance"):
        await SqliteStore.open(copied)
    assert inspection.examine_data(copied).copied
    assert not inspection.examine_data(moved).copied
    assert (await last_sequence(moved)) == (1, Restoration())

    assert main(["restore", "--take-over", "--data", str(copied)]) == 0
    assert (await last_sequence(copied))[1].at is not None


async def test_a_restore_without_arguments_is_misuse(data):
    assert main(["restore", "--data", str(data)]) == MISUSED


async def test_a_restore_never_uses_a_number_of_the_replaced_history_again(data, copy):
    store = await SqliteStore.open(data)
    replaced = await store.commit(Changes(history=(moment(job(number=0)),)))
    await store.close()
    restore_backup(copy, data, now=NOON, take_over=False)

    store = await SqliteStore.open(data)
    reader = await store.feed(replaced, FeedFilter(), limit=10, scan=10)
    later = await store.commit(Changes(history=(moment(job(number=0)),)))
    await store.close()

    assert reader.gap
    assert later > reader.next > replaced


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for another user")
async def test_a_backup_that_the_owner_of_the_data_cannot_read_is_refused_with_advice(data, copy, capsys):
    copy.chmod(0o600)
    os.chown(data, UNPRIVILEGED, UNPRIVILEGED)
    before = (data / NAME).read_bytes()

    assert main(["restore", str(copy), "--data", str(data)]) == MISUSED

    assert "copy the backup to a folder that this user can read" in capsys.readouterr().err
    assert (data / NAME).read_bytes() == before
