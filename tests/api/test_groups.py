"""ListGroups: `POST /v1/batchq/listgroups`."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.api.stop_shapes import group_end_answer
from batchq.domain.access.accounts import AccountName, Caller, UserName
from batchq.domain.enums import Role, Status
from batchq.domain.group_terms import group_terms
from batchq.domain.groups import Group
from batchq.ports.groups import GroupQuery
from batchq.ports.history import GroupEnd
from batchq.ports.jobs import Changes
from tests.support.builders import ADMIN, NOON

ADA = Caller(user=UserName("ada"), account=AccountName("lab"), role=Role.USER)


def group(name="fit", sequence=1, owner=ADMIN.owner, **members):
    terms = group_terms((("batchq:group", name),), owner)
    return Group(terms=terms, owner=owner, sequence=sequence, created_at=NOON, **members)


@pytest.fixture
def groups(accepted):
    return lambda **members: accepted("batchq/ListGroups", members)


async def test_a_group_is_listed_with_the_counts_of_its_jobs(server, groups):
    counts = ((Status.PENDING, 1), (Status.RUNNING, 1), (Status.FAILED, 2))
    limited = replace(group(counts=counts, stopped=1, run_time=timedelta(seconds=3)))
    limited = replace(limited, terms=replace(limited.terms, size=9, max_running=1, max_failed=4))
    await server.store.commit(Changes(groups=(limited,)))

    (row,) = (await groups(groupName="FIT"))["groups"]

    assert row == {
        "groupId": limited.terms.id,
        "groupName": "fit",
        "user": "tester",
        "account": "root",
        "createdAt": row["createdAt"],
        "size": 9,
        "declaredSize": 9,
        "submitted": 4,
        "statusSummary": dict.fromkeys(map(str, Status), 0) | {"PENDING": 1, "RUNNING": 1, "FAILED": 2},
        "stopped": 1,
        "maxRunning": 1,
        "maxFailed": 4,
        "runSeconds": 3.0,
    }
    assert (await groups(groups=[limited.terms.id, "g-0"]))["groups"] == [row]


async def test_groups_are_listed_in_pages_newest_first(server, groups):
    await server.store.commit(Changes(groups=tuple(group(name, order) for order, name in enumerate("abc"))))

    first = await groups(maxResults=2)
    second = await groups(maxResults=2, nextToken=first["nextToken"])

    assert [other_group["groupName"] for page in (first, second) for other_group in page["groups"]] == ["c", "b", "a"]
    assert "nextToken" not in second


async def test_groups_that_ended_before_a_time_are_left_out(server, groups):
    ended = group("old", 1, ended_at=NOON - timedelta(hours=1))
    await server.store.commit(Changes(groups=(ended, group("new", 2), group("late", 3, ended_at=NOON))))

    found = await groups(endedAfter=int(NOON.timestamp() * 1000))

    assert [other_group["groupName"] for other_group in found["groups"]] == ["late", "new"]


async def test_a_group_of_another_account_is_not_visible(server):
    own, other = group(owner=ADA.owner), group(sequence=2)
    await server.store.commit(Changes(groups=(own, other)))
    ids = [own.terms.id, other.terms.id]

    assert (await server.parts.search.groups(ids, caller=ADA)).keys() == {own.terms.id}
    assert [
        other_group.terms.id
        for other_group in await server.parts.search.newest_groups(GroupQuery(visibility=ADA.visibility))
    ] == [own.terms.id]
    assert (await server.parts.search.groups(ids, caller=ADMIN)).keys() == set(ids)


def test_two_users_have_different_groups_of_one_name():
    assert group().terms.id != group(owner=ADA.owner).terms.id


def test_the_event_of_the_last_job_names_the_group_that_ended():
    answer = group_end_answer(GroupEnd(group_id=group().terms.id, name="fit", failed=1))

    assert answer is not None
    assert (answer.group_name, answer.failed, answer.succeeded) == ("fit", 1, 0)
    assert group_end_answer(None) is None
