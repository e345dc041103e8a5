"""Which data directories are opened, and which are refused and left unchanged."""

import logging
import os
import socket
import sqlite3
import threading
from contextlib import closing

import pytest
from msgspec.structs import replace

from batchq.domain.catalog import ComputeEnvironment, JobQueue
from batchq.domain.enums import Status
from batchq.errors import StoreRefused
from batchq.ports.jobs import Changes
from batchq.store import lock, statements
from batchq.store.database import NAME
from batchq.store.lock import hold_instance
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import NOON, definition, environment, job, log_stream, moment, queue, submission


async def refused(data, match):
    with pytest.raises(StoreRefused, match=match):
        await SqliteStore.open(data)


def changed_by(data, statement):
    connection = sqlite3.connect(data / NAME, isolation_level=None)
    connection.execute(statement)
    connection.close()


# ------------------------------------------------------------------------------------------------------------ reopened


async def test_all_data_survives_a_restart(tmp_path):
    store = await SqliteStore.open(tmp_path)
    running = job(status=Status.RUNNING)
    stream = log_stream(running)
    await store.commit(
        Changes(
            inserted=(running,),
            history=(moment(running),),
            submissions=((submission(), running.id, NOON),),
            streams=(stream,),
        )
    )
    await store.commit(Changes(updated=(replace(running, tags=(("a", "b"),)),)))
    await store.put_resource(environment(), caller=None)
    await store.put_resource(queue(), caller=None)
    saved = await store.add_definition(definition(), caller=None)
    await store.close()

    again = await SqliteStore.open(tmp_path)

    assert again.instance == store.instance
    assert await again.active() == (replace(running, tags=(("a", "b"),), version=1),)
    assert await again.history(running.id) == (moment(running),)
    assert await again.submissions([submission()]) == {submission(): running.id}
    assert await again.streams() == (stream,)
    assert await again.resources(ComputeEnvironment) == (environment(),)
    assert await again.resources(JobQueue) == (queue(),)
    assert await again.definition(saved.ref) == saved
    await again.close()


async def test_each_data_has_an_instance_of_its_own(tmp_path):
    stores = [await SqliteStore.open(tmp_path / name) for name in ("a", "b")]
    names = [store.instance for store in stores]
    for store in stores:
        await store.close()

    assert len(set(names)) == 2
    assert all(len(name) == 8 and int(name, 16) >= 0 for name in names)


@pytest.mark.fault("SE14")
async def test_the_data_is_readable_only_by_its_owner(tmp_path):
    before = os.umask(0)
    data = tmp_path / "data"
    store = await SqliteStore.open(data)
    os.umask(before)
    await store.commit(Changes(inserted=(job(),)))

    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in [data, *data.iterdir()]}
    await store.close()

    assert modes.pop("data") == "0o700"
    assert modes == dict.fromkeys(["batchq.db", "batchq.db-wal", "batchq.db-shm", "batchq.lock"], "0o600")


async def test_the_database_is_configured_for_durability(tmp_path):
    store = await SqliteStore.open(tmp_path)
    writer = store._database._writer
    names = ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"]
    values = [(await writer.execute_fetchall(f"PRAGMA {name}"))[0][0] for name in names]
    level = writer.isolation_level
    await store.close()

    assert dict(zip(names, values, strict=True)) == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
    }
    assert level is None


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.fault("DB12")
async def test_a_second_server_is_refused_and_the_first_keeps_running(tmp_path):
    first = await SqliteStore.open(tmp_path)

    await refused(tmp_path, "another batchq server uses")

    await first.commit(Changes(inserted=(job(),)))
    await first.close()
    third = await SqliteStore.open(tmp_path)
    await third.close()


@pytest.mark.fault("DB10")
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (f"PRAGMA user_version = {statements.newest_schema() + 1}", "newer batchq"),
        ("PRAGMA application_id = 7", "database of another program"),
    ],
)
async def test_a_newer_schema_and_another_programs_database_are_refused(left, statement, why):
    changed_by(left, statement)
    before = (left / NAME).read_bytes()

    await refused(left, why)

    assert (left / NAME).read_bytes() == before


def with_damaged_page(whole):
    middle = len(whole) // 2 // 4096 * 4096
    return whole[:middle] + b"\xff" * 4096 + whole[middle + 4096 :]


DAMAGED = {
    "not a database": (lambda _: b"no database\n" * 1000, "damaged, or not a database"),
    "cut in the first page": (lambda whole: whole[:3000], "damaged"),
    "cut after the first page": (lambda whole: whole[:4096], "damaged"),
    "cut later": (lambda whole: whole[:30_000], "damaged"),
    "a damaged page": (with_damaged_page, "damaged"),
    "empty": (lambda _: b"", "missing or empty"),
}


@pytest.mark.fault("DB09")
@pytest.mark.parametrize(("damage", "why"), DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_file_is_refused_and_unchanged(left, damage, why):
    damaged = damage((left / NAME).read_bytes())
    (left / NAME).write_bytes(damaged)

    await refused(left, why)

    assert (left / NAME).read_bytes() == damaged


@pytest.mark.fault("DB09")
async def test_a_deleted_database_is_refused(left):
    (left / NAME).unlink()

    await refused(left, "missing or empty")
    await refused(left, "missing or empty")


async def test_without_the_lock_file_a_new_database_is_created(left):
    (left / NAME).unlink()
    (left / lock.NAME).unlink()

    store = await SqliteStore.open(left)

    assert await store.last_sequence() == -1
    await store.close()


@pytest.mark.parametrize("began", ["PRAGMA journal_mode = WAL", "SELECT 1 FROM sqlite_schema"])
async def test_an_interrupted_first_start_is_repeated(tmp_path, began):
    changed_by(tmp_path, began)

    store = await SqliteStore.open(tmp_path)

    assert await store.last_sequence() == -1
    await store.close()


async def test_a_directory_that_cannot_be_created_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")

    await refused(tmp_path / "file" / "data", "cannot use the data directory")


@pytest.mark.fault("LC07")
async def test_a_refused_store_leaves_no_thread_and_no_lock(left):
    (left / NAME).rename(left / "aside")
    before = set(threading.enumerate())

    await refused(left, "missing or empty")

    for thread in set(threading.enumerate()) - before:
        thread.join()
    (left / "aside").rename(left / NAME)
    store = await SqliteStore.open(left)
    await store.close()


# ---------------------------------------------------------------------------------------------------------- migrations


@pytest.fixture
def bare():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def tables(connection):
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


@pytest.mark.fault("DB11")
def test_a_failed_migration_is_rolled_back_and_can_be_repeated(bare):
    first = "CREATE TABLE one (x);"
    wrong = "CREATE TABLE two (x);\nCREATE TABLE three (y);\nCREATE TABLE one (z);"

    with pytest.raises(sqlite3.OperationalError):
        statements.migrate(bare, {1: first, 2: wrong})
    half_way = (statements.schema_version(bare), tables(bare))
    statements.migrate(bare, {1: first, 2: "CREATE TABLE two (x);", 3: "CREATE TABLE three (y);"})

    assert half_way == (1, {"one"})
    assert (statements.schema_version(bare), tables(bare)) == (3, {"one", "two", "three"})


INSTANCE = os.urandom(4).hex()


@pytest.mark.fault("CO02")
async def test_a_second_server_of_an_instance_is_refused_with_the_pid_of_the_first(tmp_path):
    store = await SqliteStore.open(tmp_path / "first")
    (tmp_path / "second").mkdir()

    with (
        hold_instance(INSTANCE, tmp_path / "first"),
        pytest.raises(StoreRefused) as refused,
        hold_instance(INSTANCE, tmp_path / "second"),
    ):
        pass

    await store.close()
    assert f"process {os.getpid()} is the server of instance" in str(refused.value)
    with hold_instance(INSTANCE, tmp_path / "second"):
        pass


@pytest.mark.fault("CO02")
@pytest.mark.parametrize("listens", [True, False])
def test_a_lock_of_an_untrusted_user_is_ignored(tmp_path, monkeypatch, caplog, listens):
    with closing(socket.socket(socket.AF_UNIX)) as squatter:
        squatter.bind(f"\0batchq/{INSTANCE}")
        if listens:
            squatter.listen()
            monkeypatch.setattr(lock, "_peer", lambda _: (1234, 54321))
        with caplog.at_level(logging.WARNING), hold_instance(INSTANCE, tmp_path):
            pass

    assert "ignoring the lock" in caplog.text
