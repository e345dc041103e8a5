"""The contract of every store: audit records."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, Visibility
from batchq.domain.access.audit import AuditQuery, AuditRecord, PendingAudit
from batchq.domain.catalog import ComputeEnvironment, ConsumableResource, JobQueue, SchedulingPolicy
from batchq.errors import Conflict
from batchq.ports.jobs import Changes
from tests.support.builders import NOON, consumable, definition, environment, job, policy, queue

SECOND = timedelta(seconds=1)
DONE = AuditRecord(
    at=NOON,
    user="ada",
    account="team",
    key="BQIA1",
    request_id="a-request",
    operation="SubmitJob",
    resource="job/1",
    outcome="RUNNABLE",
)
BY_ADA = Caller(user="ada", account="team", key="BQIA1", request_id="r", operation="AnOperation", requested_at=NOON)


def act(second, **fields):
    return replace(DONE, at=NOON + second * SECOND, **fields)


async def records(store, **fields):
    return [record.record for record in await store.audit_records(AuditQuery(**{"limit": 100} | fields))]


@pytest.fixture
async def several(store):
    """Audit records of ada, bob and eve, one per second; the first and the last are of ada."""
    acts = (
        act(0),
        act(1, user="bob", resource="job/2", operation="CancelJob"),
        act(2, user="eve", account="other", resource="job/1"),
        act(3, resource="job/3"),
    )
    await store.commit(Changes(inserted=(job(),), audit_records=acts))
    return acts


async def test_audit_records_are_complete_and_newest_first(store, several):
    assert await records(store) == [*several[::-1]]
    assert await records(store, limit=2) == [several[3], several[2]]


async def test_audit_records_of_a_failed_commit_are_not_saved(store):
    with pytest.raises(Conflict):
        await store.commit(Changes(updated=(job(version=5),), audit_records=(DONE,)))

    assert await records(store) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"user": "ada"}, [3, 0]),
        ({"resource": "job/1"}, [2, 0]),
        ({"operation": "CancelJob"}, [1]),
        ({"since": NOON + 2 * SECOND}, [3, 2]),
        ({"user": "ada", "resource": "job/1"}, [0]),
        ({"user": "a%"}, []),
        ({"visibility": Visibility(user="ada")}, [3, 0]),
        ({"visibility": Visibility(user="unknown")}, []),
        ({"visibility": Visibility(user="ada", accounts=frozenset({"other"}))}, [3, 2, 0]),
        ({"visibility": Visibility(user="cora", accounts=frozenset({"other", "team"}))}, [3, 2, 1, 0]),
        ({"visibility": Visibility(user="cora", accounts=frozenset({"team"})), "limit": 2}, [3, 1]),
        ({"visibility": Visibility(user="eve"), "user": "ada"}, []),
    ],
)
async def test_a_query_selects_only_matching_records(store, several, query, found):
    assert await records(store, **query) == [several[record] for record in found]


@pytest.mark.parametrize("visibility", [None, Visibility(user="ada", accounts=frozenset({"team", "other"}))])
async def test_pages_continue_within_the_same_time(store, visibility):
    acts = tuple(act(number // 3, resource=f"job/{number}") for number in range(7))
    await store.commit(Changes(inserted=(job(),), audit_records=acts))

    first = await store.audit_records(AuditQuery(limit=4, visibility=visibility))
    last = first[-1]
    second = await store.audit_records(AuditQuery(limit=4, visibility=visibility, before=(last.record.at, last.number)))

    assert [entry.record for entry in (*first, *second)] == [*acts[::-1]]


@pytest.mark.parametrize(
    ("visibility", "found"),
    [
        (Visibility(user="ada"), [0]),
        (Visibility(user="eve"), []),
        (Visibility(user="cora", accounts=frozenset({"team"})), [1, 0]),
        (Visibility(user="cora", accounts=frozenset({"other"})), []),
    ],
)
async def test_records_about_a_job_are_visible_to_its_owner_and_coordinators(store, visibility, found):
    by_others = (
        act(0, user="amy", account="root", operation="TerminateJob", owner="ada", owner_account="team"),
        act(1, user="amy", account="root", operation="TerminateJob", owner="bob", owner_account="team"),
    )
    await store.commit(Changes(inserted=(job(),), audit_records=by_others))

    assert await records(store, visibility=visibility) == [by_others[record] for record in found]


async def test_journaled_records_are_ingested_once(store):
    noted = [PendingAudit(entry_id="a", record=act(0)), PendingAudit(entry_id="b", record=act(1))]
    await store.ingest_audit_records(noted)

    await store.ingest_audit_records([*noted, PendingAudit(entry_id="c", record=act(2))])

    assert await records(store) == [act(2), act(1), act(0)]


async def test_old_records_are_deleted_oldest_first_in_batches(store, several):
    before = NOON + 3 * SECOND

    gone = [await store.prune_audit_records(before, limit=2) for _ in range(3)]

    assert gone == [2, 1, 0]
    assert await records(store) == [several[3]]


CATALOG = {
    "compute-environment/local": [
        lambda store: store.put_resource(environment(), caller=BY_ADA),
        lambda value: value.drop_resource(ComputeEnvironment, "local", caller=BY_ADA),
    ],
    "job-queue/default": [
        lambda store: store.put_resource(queue(), caller=BY_ADA),
        lambda value: value.drop_resource(JobQueue, "default", caller=BY_ADA),
    ],
    "scheduling-policy/fair": [
        lambda store: store.put_resource(policy(name="fair"), caller=BY_ADA),
        lambda value: value.drop_resource(SchedulingPolicy, "fair", caller=BY_ADA),
    ],
    "consumable-resource/licences": [
        lambda store: store.put_resource(consumable(name="licences"), caller=BY_ADA),
        lambda value: value.drop_resource(ConsumableResource, "licences", caller=BY_ADA),
    ],
    "job-definition/a": [lambda value: value.add_definition(definition(name="a"), caller=BY_ADA)],
}


@pytest.mark.parametrize(("about", "changes"), CATALOG.items(), ids=CATALOG)
async def test_a_change_of_the_catalog_is_saved_with_the_audit_record_of_its_caller(store, about, changes):
    done = [await change(store) for change in changes]

    (*acts,) = await records(store)
    assert [(other_act.resource, other_act.user, other_act.operation, other_act.at) for other_act in acts] == [
        (about, "ada", "AnOperation", NOON)
    ] * len(done)


async def test_a_refused_change_has_no_audit_record(store):
    with pytest.raises(Conflict):
        await store.put_definition(definition(name="gone"), caller=BY_ADA)

    assert await records(store) == []


async def test_a_change_by_the_server_itself_has_no_audit_record(store):
    await store.put_resource(queue(), caller=None)
    await store.add_definition(definition(), caller=None)

    assert await records(store) == []
