"""The read-only inspection of a data directory."""

import os
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from batchq.domain.catalog import RUNTIME_TAG
from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from batchq.ports.jobs import Changes, Restoration
from batchq.store import inspection, statements
from batchq.store.sqlite_store import SqliteStore
from tests.store import second_version
from tests.support.builders import NOON, environment, job, job_id


def everything_in(folder):
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.iterdir()}


@pytest.fixture
async def at_rest(tmp_path):
    """Data with two jobs, one of which runs; no server has it."""
    store = await SqliteStore.open(tmp_path)
    running = job(number=1, status=Status.RUNNING, created_at=NOON)
    await store.commit(Changes(inserted=(running, job(number=2, created_at=NOON + timedelta(hours=1)))))
    await store.close()
    return tmp_path


def test_the_inspection_of_a_missing_directory_creates_nothing(tmp_path):
    data = tmp_path / "none"

    facts = inspection.examine_data(data)

    assert (facts.exists, facts.locked, facts.database) == (False, False, None)
    assert facts.disk.free > 0
    assert list(tmp_path.iterdir()) == []


async def test_the_inspection_of_unused_data_changes_nothing(at_rest):
    before = everything_in(at_rest)

    facts = inspection.examine_data(at_rest)

    assert everything_in(at_rest) == before
    assert (facts.locked, facts.refusal, facts.schema) == (False, None, statements.newest_schema())
    assert [other_job.id for other_job in facts.database.active] == [job_id(1)]
    assert facts.database.newest_created_at == NOON + timedelta(hours=1)


async def test_the_oci_runtimes_of_compute_environments_are_reported(tmp_path):
    store = await SqliteStore.open(tmp_path)
    await store.put_resource(environment("usual"), caller=None)
    await store.put_resource(environment("fast", tags=((RUNTIME_TAG, "crun"),)), caller=None)
    await store.close()

    assert inspection.examine_data(tmp_path).database.selected_runtimes == {"crun"}


async def test_data_in_use_is_reported_with_the_pid_of_its_server(tmp_path):
    store = await SqliteStore.open(tmp_path)
    await store.commit(Changes(inserted=(job(number=1, status=Status.STARTING),)))

    facts = inspection.examine_data(tmp_path)

    assert (facts.locked, facts.holder_pid) == (True, os.getpid())
    assert [other_job.id for other_job in facts.database.active] == [job_id(1)]
    assert facts.database.instance == store.instance
    assert facts.wal_bytes > 0
    await store.close()


async def test_jobs_are_found_by_the_ids_of_containers(at_rest):
    facts = inspection.with_container_jobs(inspection.examine_data(at_rest), {job_id(1), job_id(9)})

    assert set(facts.database.container_jobs) == {job_id(1)}


async def test_an_unknown_lock_holder_is_reported_as_unknown(at_rest, monkeypatch, tmp_path):
    monkeypatch.setattr(inspection.lock, "LOCKS", tmp_path / "no such file")

    assert inspection.examine_data(at_rest).locked is None


async def test_actual_and_allowed_file_modes_are_reported(at_rest):
    (at_rest / "batchq.db").chmod(0o644)

    modes = {
        path.path.name: (path.mode, path.allowed_mode, path.owner_uid)
        for path in inspection.examine_data(at_rest).files
    }

    assert modes["batchq.db"] == (0o644, 0o600, os.geteuid())
    assert modes["batchq.lock"] == (0o600, 0o600, os.geteuid())


async def test_a_missing_database_is_reported(at_rest):
    (at_rest / "batchq.db").unlink()

    assert "batchq.db" in inspection.examine_data(at_rest).refusal


async def test_a_file_that_is_not_a_database_is_reported_and_unchanged(at_rest):
    (at_rest / "batchq.db").write_bytes(b"no database at all, but long enough to be read as one" * 100)
    before = everything_in(at_rest)

    facts = inspection.examine_data(at_rest)

    assert "damaged, or not a database" in facts.refusal
    assert everything_in(at_rest) == before


async def test_the_rows_of_an_earlier_schema_are_not_read(at_rest, monkeypatch):
    earlier = statements.newest_schema()
    monkeypatch.setattr(statements, "MIGRATIONS", second_version.STEPS)

    facts = inspection.examine_data(at_rest)

    assert (facts.refusal, facts.schema, facts.database) == (None, earlier, None)


async def test_an_unconfirmed_restore_is_reported(at_rest):
    store = await SqliteStore.open(at_rest)
    spared = Tag(job_id=job_id(7), attempt=1)
    await store.commit(Changes(restoration=Restoration(at=NOON, spared=frozenset({spared}))))
    await store.close()

    records = inspection.examine_data(at_rest).database

    assert (records.restored_at, records.spared) == (NOON, {spared})


async def test_an_unreadable_row_is_reported(at_rest):
    with closing(sqlite3.connect(at_rest / "batchq.db")) as connection:
        connection.execute("UPDATE jobs SET state = 'no JSON' WHERE sequence = 1")
        connection.commit()

    assert inspection.examine_data(at_rest).database.read_error


@pytest.mark.fault("SE14")
@pytest.mark.parametrize("name", ["accounts.json", "keys.json", "audit.log"])
async def test_modes_of_the_access_key_and_account_files_are_reported(at_rest, name):
    (at_rest / name).touch()
    (at_rest / name).chmod(0o640)

    found = {path.path.name: (path.mode, path.allowed_mode) for path in inspection.examine_data(at_rest).files}

    assert found[name] == (0o640, 0o600)
