"""A kill (-9) at any statement of a migration leaves the old schema or the new one, and the next start goes on."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from batchq.store import migrations
from batchq.store.database import NAME
from tests.house.rooms import ROOT
from tests.store import second_version
from tests.store.killed_upgrade import schema
from tests.support import every_table

EARLIER = second_version.VERSION - 1


def schema_of(version):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrations.migrate(connection, {it: second_version.STEPS[it] for it in range(1, version + 1)})
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
    killed, again = [it for it in left if it["killed"] is not None], [it for it in left if it["killed"] is None]
    assert [it for it in left if it["schema"] != schemas[it["version"]]] == []
    assert {it["version"] for it in killed} == schemas.keys()
    assert {it["version"] for it in again} == {second_version.VERSION}
    assert {it["jobs"] for it in left} == {len(every_table.JOBS) - 1}
