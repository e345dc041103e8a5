"""A kill (-9) at any statement of any migration leaves the old schema or the new one, and the next start goes on."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from batchq.store import migrations
from tests.house.rooms import ROOT
from tests.store.test_migrations import INSERT_JOB, ROWS


def schema_of(version, path):
    """What a database of this version has, with some jobs of the first one in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        migrations.migrate(made, {1: migrations.STEPS[1]})
        made.executemany(INSERT_JOB, ROWS)
        made.executemany("INSERT INTO specs VALUES (:ord, :spec)", ROWS)
        migrations.migrate(made, {number: step for number, step in migrations.STEPS.items() if number <= version})
        found = made.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
        return [list(row) for row in found]


@pytest.fixture
def schemas(tmp_path):
    return {version: schema_of(version, tmp_path / f"of-{version}.db") for version in migrations.STEPS}


@pytest.mark.fault("DB11")
@pytest.mark.timeout(600)  # two hundred processes, on a machine that may be busy
@pytest.mark.parametrize("version", range(1, migrations.NEWEST))
def test_killed_at_any_statement_it_is_at_one_version_or_another_and_goes_on(tmp_path, schemas, version):
    source = tmp_path / f"of-{version}.db"

    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killed_upgrade", str(source)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    left = [json.loads(line) for line in done.stdout.splitlines()]
    killed, again = [it for it in left if it["killed"] is not None], [it for it in left if it["killed"] is None]
    assert [it for it in left if it["schema"] != schemas[it["version"]]] == []
    assert {it["version"] for it in killed} == set(range(version, migrations.NEWEST + 1))
    assert {it["version"] for it in again} == {migrations.NEWEST}
    assert {it["jobs"] for it in left} == {len(ROWS)}
