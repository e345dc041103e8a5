"""Audit records in the journal and in the database: each is listed once, and old ones are deleted."""

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.audit import BATCH_SIZE, AuditLog, Journal
from batchq.domain.access.accounts import Visibility
from batchq.domain.access.audit import AuditQuery
from batchq.errors import Unavailable
from batchq.ports.jobs import Changes
from batchq.store import statements
from batchq.store.audit import select_records
from tests.contracts.test_store_audit import DONE
from tests.support.builders import NOON, job
from tests.support.inline import InlineStore

YEAR = timedelta(days=365)
ALL = AuditQuery(limit=100_000)


class AtNoon:
    def now(self):
        return NOON

    async def sleep(self, seconds): ...


class LosingAnswersStore(InlineStore):
    """Ingests audit records, and then fails, `fails` times."""

    fails = 0

    async def ingest_audit_records(self, noted):
        await super().ingest_audit_records(noted)
        if self.fails:
            self.fails -= 1
            raise Unavailable("killed")


@pytest.fixture
def store():
    return LosingAnswersStore()


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path)


@pytest.fixture
def audit(store, journal):
    return AuditLog(store=store, journal=journal, clock=AtNoon(), retention=YEAR)


async def stored_records(audit):
    return [record.record for record in await audit.records(ALL)]


async def test_a_journal_record_is_listed_at_once(audit, journal, tmp_path):
    journal.append(DONE)
    journal.append(replace(DONE, user="bob"))

    assert {record.user for record in await stored_records(audit)} == {"ada", "bob"}
    assert (tmp_path / "audit.log").read_bytes() == b""


async def test_a_record_ingested_twice_is_listed_once(audit, journal, store):
    journal.append(DONE)
    store.fails = 1
    with pytest.raises(Unavailable):
        await audit.records(ALL)

    assert await stored_records(audit) == [DONE]


async def test_a_record_journaled_during_ingestion_is_kept(journal):
    journal.append(DONE)
    _, length = journal.read()
    journal.append(replace(DONE, user="bob"))

    journal.drop(length)

    assert [entry.record.user for entry in journal.read()[0]] == ["bob"]


async def test_old_audit_records_are_deleted_and_no_others(audit, store):
    now = NOON
    old = tuple(replace(DONE, at=now - 2 * YEAR, resource=f"job/{number}") for number in range(BATCH_SIZE + 5))
    new = replace(DONE, at=now - YEAR / 2)
    await store.commit(Changes(inserted=(job(),), audit_records=(*old, new)))

    await audit.run_once()

    assert await stored_records(audit) == [new]


async def test_without_a_retention_period_nothing_is_deleted(store, journal):
    await store.commit(Changes(inserted=(job(),), audit_records=(replace(DONE, at=NOON - 100 * YEAR),)))

    await AuditLog(store=store, journal=journal, clock=AtNoon(), retention=None).run_once()

    assert len(await store.audit_records(ALL)) == 1


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (AuditQuery(limit=5), "audit_log_by_time"),
        (AuditQuery(limit=5, since=NOON), "audit_log_by_time"),
        (AuditQuery(limit=5, user="ada"), "audit_log_by_user"),
        (AuditQuery(limit=5, resource="job/1"), "audit_log_by_resource"),
        (AuditQuery(limit=5, resource="job/1", user="ada"), "audit_log_by_resource"),
        (AuditQuery(limit=5, visibility=Visibility(user="ada")), "audit_log_by_user"),
        (AuditQuery(limit=5, visibility=Visibility(user="", accounts=frozenset({"team"}))), "audit_log_by_account"),
        (AuditQuery(limit=5, visibility=Visibility(user="ada"), before=(NOON, 7)), "audit_log_by_user"),
    ],
)
def test_a_page_is_read_from_an_index_in_its_order(query, index):
    assert_index(index, *select_records(query))


@pytest.mark.parametrize(
    ("visibility", "index"),
    [
        (Visibility(user="ada"), "audit_log_by_owner"),
        (Visibility(user="", accounts=frozenset({"team"})), "audit_log_by_owner_account"),
    ],
)
def test_records_about_jobs_of_an_owner_are_read_from_an_index_in_its_order(visibility, index):
    assert_index(index, *select_records(AuditQuery(limit=5, visibility=visibility), by_owner=True))


def assert_index(index, statement, bound):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        statements.migrate(connection, statements.MIGRATIONS)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]

    assert any(index in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
