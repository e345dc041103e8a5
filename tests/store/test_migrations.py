"""Data of an earlier schema is migrated completely. The later schema is synthetic: `second_version`."""

import json
import logging
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from batchq import __version__
from batchq.cli.main import main
from batchq.errors import StoreRefused
from batchq.store import statements
from batchq.store.backup import check_file
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.house.rooms import ROOT
from tests.store import second_version
from tests.store.killed_upgrade import schema
from tests.support import every_table

EARLIER = second_version.VERSION - 1


@pytest.fixture
async def data(tmp_path):
    """Data of the newest schema that the product has."""
    await every_table.fill(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def later(monkeypatch):
    """Run the second version of batchq from now on."""
    monkeypatch.setattr(statements, "MIGRATIONS", second_version.STEPS)


def dump(data):
    """The columns and rows of every table."""
    with closing(sqlite3.connect(data / NAME)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
        found = {name: connection.execute(f"SELECT * FROM {name}") for (name,) in tables}
        return {name: ([pair[0] for pair in rows.description], rows.fetchall()) for name, rows in found.items()}


async def open_and_close(data):
    store = await SqliteStore.open(data)
    await store.close()


async def test_the_data_to_upgrade_has_a_row_in_every_table(data):
    assert [name for name, (_, rows) in dump(data).items() if not rows] == []
    assert check_file(data / NAME).problems == ()


async def test_an_upgrade_keeps_every_row_and_is_logged(data, request, caplog):
    caplog.set_level(logging.INFO)
    before = dump(data)
    request.getfixturevalue("later")

    await open_and_close(data)

    after = dump(data)
    assert (
        f"database schema upgraded from version {second_version.VERSION - 1} to {second_version.VERSION}" in caplog.text
    )
    assert check_file(data / NAME).schema == second_version.VERSION
    assert check_file(data / NAME).problems == ()
    columns, rows = after.pop("jobs")
    assert columns[-2:] == ["zone", "image"]
    assert {row[-2:] for row in rows} == {("here", "batchq-test:latest"), ("here", None)}
    assert after.pop("images")[1] == [("batchq-test:latest",)]
    assert (columns[:-2], [row[:-2] for row in rows]) == before.pop("jobs")
    assert after == before


async def test_the_data_before_an_upgrade_is_kept_and_the_earlier_version_continues_with_it(data, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    before = dump(data)
    with monkeypatch.context() as patched:
        patched.setattr(statements, "MIGRATIONS", second_version.STEPS)
        await open_and_close(data)

    copy = data / f"{NAME}.schema-{EARLIER}"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert f"{copy} is a copy of the database before its upgrade" in caplog.text
    copy.replace(data / NAME)
    await open_and_close(data)
    assert dump(data) == before


async def test_without_room_for_a_copy_the_data_is_not_upgraded(data, later):
    before = dump(data)
    (data / f"{NAME}.schema-{EARLIER}.new").mkdir()

    with pytest.raises(StoreRefused, match="cannot be copied"):
        await SqliteStore.open(data)

    assert dump(data) == before


async def test_an_earlier_version_refuses_migrated_data(data, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(statements, "MIGRATIONS", second_version.STEPS)
        await open_and_close(data)
    before = dump(data)

    with pytest.raises(StoreRefused, match=f"newer batchq {__version__}: use that version"):
        await SqliteStore.open(data)

    assert dump(data) == before


async def test_check_reports_an_earlier_schema_and_does_not_read_its_rows(data, later, capsys):
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        connection.execute("UPDATE catalog_resources SET value = '{' WHERE kind = 'JobQueue'")

    assert main(["check", "--data", str(data)]) == 0

    assert f"older than schema {second_version.VERSION} of this version" in capsys.readouterr().out


def schema_of(version):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        statements.migrate(connection, {index: second_version.STEPS[index] for index in range(1, version + 1)})
        return schema(connection)


@pytest.fixture
async def database(tmp_path):
    await every_table.fill(tmp_path / "source")
    return tmp_path / "source" / NAME


@pytest.mark.exhaustive
@pytest.mark.fault("DB11")
@pytest.mark.timeout(600)  # a process for each statement, on a machine that may be busy
def test_a_kill_at_any_statement_of_a_migration_leaves_the_old_or_the_new_schema(database):
    schemas = {version: schema_of(version) for version in (EARLIER, second_version.VERSION)}

    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killed_upgrade", str(database)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    left = [json.loads(line) for line in done.stdout.splitlines()]
    killed, again = ([row for row in left if row["killed"] is not None], [row for row in left if row["killed"] is None])
    assert [row for row in left if row["schema"] != schemas[row["version"]]] == []
    assert {row["version"] for row in killed} == schemas.keys()
    assert {row["version"] for row in again} == {second_version.VERSION}
    assert {row["jobs"] for row in left} == {len(every_table.JOBS) - 1}
