"""Unreadable rows of each table do not fail the read of the others."""

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.access.accounts import Owner, Visibility
from batchq.domain.bulk_stop import BulkStop
from batchq.domain.catalog import DefinitionStatus
from batchq.domain.enums import Status, StopKind
from batchq.domain.ids import DefinitionRef
from batchq.domain.job_selection import JobSelection
from batchq.domain.scheduling.fairshare import ShareKey
from batchq.domain.stop_request import StopRequest
from batchq.errors import StoreRefused
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import consumable, definition, environment, job, job_id, log_stream, moment, policy, queue

pytestmark = pytest.mark.fault("LC06")

BLOB = "CAST(x'7bff' AS TEXT)"  # no UTF-8


async def change(store, statement):
    await store._database._writer.execute_fetchall(statement)


@pytest.mark.parametrize("ruin", ["'{'", "''", BLOB])
async def test_an_unreadable_bulk_stop_is_skipped_and_its_number_reused(store, ruin):
    cancel = BulkStop(number=1, request=StopRequest(kind=StopKind.CANCEL, reason="enough"))
    await store.commit(
        Changes(inserted=(job(number=1), job(number=2, name="mine")), bulk_stops=((cancel, JobSelection()),))
    )
    await change(store, f"UPDATE bulk_stops SET value = {ruin}")
    assert await store.bulk_stops() == ()

    await store.commit(Changes(bulk_stops=((cancel, JobSelection(names=frozenset({"mine"}))),)))

    assert await store.bulk_stops() == (cancel,)
    assert [target.job.sequence for target in await store.next_targets(1, 10)] == [2]


@pytest.mark.parametrize("ruin", ["'{'", "''", BLOB])
@pytest.mark.parametrize("table", ["jobs SET state", "job_specs SET spec"])
async def test_a_list_shows_a_damaged_job_from_its_columns(store, table, ruin):
    jobs = [job(number=number, name="A-Name", millicpus=2000) for number in range(3)]
    await store.commit(Changes(inserted=tuple(jobs)))
    await change(store, f"UPDATE {table} = {ruin} WHERE sequence = 1")

    listed = (await store.list(PageQuery(limit=10))).jobs

    damaged = listed[1]
    assert [other_job.id for other_job in listed] == [job_id(2), job_id(1), job_id(0)]
    assert (listed[0], listed[2]) == (jobs[2], jobs[0])
    assert (damaged.spec.name.lower(), damaged.spec.definition, damaged.spec.resources.millicpus) == (
        "a-name",
        jobs[1].spec.definition,
        2000,
    )
    assert status_reasons.UNREADABLE in {damaged.status_reason, damaged.spec.invalid}
    assert await store.damaged() == (job_id(1),)


async def test_a_quarantined_record_is_logged_with_the_recovered_history(store, caplog):
    await store.commit(Changes(inserted=(job(number=1),)))
    await change(store, "UPDATE jobs SET state = '{' WHERE sequence = 1")

    await store.jobs([job_id(1)])

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"job {job_id(1)}: record unreadable and quarantined")
    assert line.endswith("submitted")


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("table", ["jobs SET state", "job_specs SET spec"])
async def test_a_damaged_job_keeps_its_owner(store, table):
    whose = Owner(user="ada", account="lab")
    await store.commit(Changes(inserted=(job(number=1, owner=whose),)))
    await change(store, f"UPDATE {table} = '{{' WHERE sequence = 1")

    assert [other_job.spec.owner for other_job in (await store.jobs([job_id(1)])).values()] == [whose]
    assert (await store.jobs([job_id(1)], visibility=Visibility(user="ada"))).keys() == {job_id(1)}
    assert await store.jobs([job_id(1)], visibility=Visibility(user="bob")) == {}


async def test_a_row_that_disagrees_with_its_columns_is_unreadable(store):
    await store.commit(Changes(inserted=(job(number=1, status=Status.RUNNABLE),)))
    await change(store, "UPDATE jobs SET status = 'RUNNING'")

    (found,) = await store.active()

    assert (found.status, found.status_reason) == (Status.RUNNING, status_reasons.UNREADABLE)


async def test_the_quarantine_survives_a_restart(store, tmp_path):
    await store.commit(Changes(inserted=(job(number=1, status=Status.RUNNABLE),)))
    await change(store, "UPDATE jobs SET state = '{'")
    await store.jobs([job_id(1)])
    await store.close()

    again = await SqliteStore.open(tmp_path)

    assert await again.damaged() == (job_id(1),)
    assert await again.quarantined_values() == 1
    await again.close()


async def test_a_damaged_job_can_be_updated(store):
    await store.commit(Changes(inserted=(job(number=1, status=Status.RUNNABLE),)))
    await change(store, "UPDATE jobs SET state = '{'")
    left = (await store.jobs([job_id(1)]))[job_id(1)]

    await store.commit(Changes(updated=(replace(left, status=Status.FAILED),)))

    assert (await store.jobs([job_id(1)]))[job_id(1)].status is Status.FAILED
    assert await store.damaged() == ()


async def test_an_unreadable_history_entry_is_skipped(store):
    stored = job(number=1)
    await store.commit(Changes(inserted=(stored,), history=(moment(stored), moment(stored))))
    await change(store, f"UPDATE job_history SET value = {BLOB} WHERE number = 1")

    assert await store.history(stored.id) == (moment(stored),)


async def test_an_unreadable_log_stream_is_skipped_and_the_page_is_full(store):
    jobs = [job(number=number, status=Status.RUNNING) for number in range(4)]
    streams = sorted((log_stream(other_job) for other_job in jobs), key=lambda other_job: other_job.name)
    await store.commit(Changes(inserted=tuple(jobs), streams=tuple(streams)))
    await change(store, f"UPDATE log_streams SET value = '{{' WHERE name = '{streams[1].name}'")

    assert await store.streams(limit=2) == (streams[0], streams[2])
    assert await store.stream(streams[1].name) is None
    assert set(await store.newest_streams(limit=3)) == {streams[0], streams[2], streams[3]}


async def test_an_unreadable_job_definition_is_skipped_and_its_revision_is_not_reused(store):
    for _ in range(3):
        await store.add_definition(definition(name="a"), caller=None)
    await change(store, "UPDATE job_definitions SET value = '{' WHERE revision = 3")

    listed = await store.definitions(name="a", status=DefinitionStatus.ACTIVE, limit=2, after=None)
    newest = await store.newest_active("a")
    added = await store.add_definition(definition(name="a"), caller=None)

    assert [other_definition.ref.revision for other_definition in listed] == [2, 1]
    assert newest.ref.revision == 2
    assert await store.definition(DefinitionRef(name="a", revision=3)) is None
    assert added.ref.revision == 4


async def test_an_unreadable_share_usage_is_recounted(store):
    share = {"queue": "fair", "share_identifier": "red", "millicpus": 2000}
    jobs = [
        job(number=1, status=Status.RUNNABLE, **share),
        job(number=2, status=Status.RUNNING, **share),
        job(number=3, status=Status.FAILED, **share),
        job(number=4, status=Status.RUNNING, **share | {"share_identifier": "blue"}),
    ]
    await store.commit(Changes(inserted=tuple(jobs)))
    await change(store, "INSERT INTO share_usage VALUES ('fair', 'red', '{')")

    (use,) = (await store.shares()).values()

    assert set(await store.shares()) == {ShareKey("fair", "red")}
    assert (use.active, use.millicpus, use.used) == (2, 2000, 0)


@pytest.mark.parametrize(
    "resource", [environment(), queue(), policy(), consumable()], ids=lambda value: type(value).__name__
)
async def test_an_unreadable_row_of_the_catalog_is_an_error(store, resource):
    await store.put_resource(resource, caller=None)
    await change(store, "UPDATE catalog_resources SET value = '{'")

    with pytest.raises(StoreRefused, match=f"{type(resource).__name__} '{resource.name}' in the table .* unreadable"):
        await store.resources(type(resource))
