"""The contract of every store: invisible jobs do not exist for a caller."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Owner, Visibility
from batchq.domain.enums import Status
from batchq.domain.ids import DefinitionRef
from batchq.domain.job import ConsumableRequirement
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_values import Hold
from batchq.ports.catalog import NeedQuery
from batchq.ports.job_search import PageQuery, SearchPosition
from batchq.ports.jobs import Changes
from tests.support import filters
from tests.support.builders import NOON, definition, job, log_stream
from tests.support.examples import examples
from tests.support.inline import InlineStore

ADA, BOB, CY = Owner(user="ada", account="lab"), Owner(user="bob", account="lab"), Owner(user="cy", account="team")
OWN, LAB = Visibility(user="ada"), Visibility(user="cora", accounts=frozenset({"lab"}))


async def page(store, **fields):
    found = await store.definitions(**{"name": None, "status": None, "limit": 9, "after": None} | fields)
    return [str(other_definition.ref) for other_definition in found]


async def register(store, **owners):
    """A revision for each name, its owner's."""
    for name, owner in owners.items():
        await store.add_definition(definition(name=name, owner=owner), caller=None)


async def test_an_invisible_job_is_not_found(store):
    jobs = [job(owner=owner) for owner in (ADA, BOB, CY)]
    await store.commit(Changes(inserted=tuple(jobs)))
    ids = [other_job.id for other_job in jobs] + ["unknown"]

    assert await store.jobs(ids, visibility=OWN) == {jobs[0].id: jobs[0]}
    assert (await store.jobs(ids, visibility=LAB)).keys() == set(ids[:2])
    assert (await store.jobs(ids)).keys() == set(ids[:3])


async def test_pages_have_each_visible_job_once_in_order(store):
    owners = [ADA, BOB, ADA, CY, ADA, BOB]
    jobs = tuple(job(number=number, owner=owner, status=list(Status)[number]) for number, owner in enumerate(owners))
    await store.commit(Changes(inserted=jobs))

    async def listed(limit=9, before=None, **selection):
        query = PageQuery(selection=JobSelection(**selection), limit=limit, before=before)
        return [other_job.sequence for other_job in (await store.list(query)).jobs]

    assert await listed(visibility=OWN) == [4, 2, 0]
    assert await listed(visibility=OWN, limit=2) == [4, 2]
    assert await listed(visibility=OWN, before=SearchPosition(0, 2)) == [0]
    assert await listed(visibility=OWN, statuses=frozenset({list(Status)[2]})) == [2]
    assert await listed(visibility=Visibility(user="ada", accounts=frozenset({"lab", "team"}))) == [5, 4, 3, 2, 1, 0]


async def test_whatever_selects_jobs_those_of_visible_accounts_are_found(store):
    jobs = tuple(
        job(number=number, owner=owner, hold=Hold(reason="not yet", held_at=NOON))
        for number, owner in enumerate((ADA, BOB, CY))
    )
    await store.commit(Changes(inserted=jobs))
    for selection in ({}, {"ids": tuple(other_job.id for other_job in jobs)}, {"held": True}, {"children": True}):
        query = PageQuery(selection=JobSelection(visibility=LAB, **selection), limit=9)
        assert [other_job.sequence for other_job in (await store.search(query)).jobs] == [1, 0], selection


async def test_a_list_of_streams_has_those_of_visible_jobs(store):
    names = {"c": ADA, "a": ADA, "b": BOB, "d": CY}
    of = job(status=Status.RUNNING)
    made = [
        log_stream(of, name=name, owner=owner, created_at=NOON + timedelta(seconds=number))
        for number, (name, owner) in enumerate(names.items())
    ]
    await store.commit(Changes(inserted=(of,), streams=tuple(made)))

    assert await store.streams(visibility=OWN) == (made[1], made[0])
    assert [stream.name for stream in await store.streams(visibility=LAB, limit=2)] == ["a", "b"]
    assert [stream.name for stream in await store.streams(visibility=LAB, after="a", prefix="c")] == ["c"]
    assert [stream.name for stream in await store.newest_streams(visibility=LAB)] == ["b", "a", "c"]
    assert [
        stream.name for stream in await store.newest_streams(visibility=LAB, before=(made[2].created_at, "b"), limit=1)
    ] == ["a"]


async def test_a_list_of_definitions_has_the_visible_ones(store):
    await register(store, a=ADA, b=BOB, c=Owner(account=ROOT))
    await register(store, a=ADA, b=BOB, c=Owner(account=ROOT))
    usable = Visibility(user="ada", accounts=frozenset({ROOT}))

    assert await page(store, visibility=usable) == ["a:2", "a:1", "c:2", "c:1"]
    assert await page(store, visibility=usable, limit=1, after=DefinitionRef(name="a", revision=2)) == ["a:1"]
    assert await page(store, visibility=usable, limit=1, after=DefinitionRef(name="a", revision=1)) == ["c:2"]
    assert await page(store, visibility=usable, status="INACTIVE") == []
    assert await page(store, visibility=usable, name="b") == await page(store, visibility=usable, name="x") == []
    assert await page(store, visibility=usable, name="c") == ["c:2", "c:1"]


# ------------------------------------------------------------------------------------------- SQL and the specification

BEFORE = (NOON + timedelta(seconds=2), "b")

USERS, ACCOUNTS = st.sampled_from(["", "ada", "a'b", "%"]), st.sampled_from([ROOT, "lab", "l*b"])
REACHES = st.none() | st.builds(Visibility, user=USERS, accounts=st.frozensets(ACCOUNTS))
OWNERS = st.lists(st.tuples(st.builds(Owner, user=USERS, account=ACCOUNTS), st.sampled_from(Status)), max_size=8)
NEEDS = (ConsumableRequirement(resource="gold", quantity=1),)


async def lists(store, every, named, needing):
    """Everything that the store lists within the reach of these queries."""
    visibility, limit = every.selection.visibility, every.limit
    return [
        (await store.list(every)).jobs,
        (await store.list(named)).jobs,
        await store.list_needing(needing),
        await store.streams(limit=limit, visibility=visibility),
        await store.newest_streams(limit=limit, before=BEFORE, visibility=visibility),
        await store.definitions(name=None, status="ACTIVE", limit=limit, after=None, visibility=visibility),
    ]


def specified(jobs, streams, definitions, queries):
    """The same lists, by predicates."""
    every, named, needing = queries
    visibility, limit = every.selection.visibility, every.limit
    by_name = [
        stream
        for stream in sorted(streams, key=lambda stream: stream.name)
        if filters.visible(stream.owner, visibility)
    ]
    newest = sorted(by_name, key=lambda item: (item.created_at, item.name), reverse=True)
    return [
        filters.searched(jobs, every, {})[:limit],
        tuple(other_job for other_job in filters.searched(jobs, named, {}) if other_job.sequence < 5)[:limit],
        filters.listed_needing(jobs, needing),
        tuple(by_name[:limit]),
        tuple([other_item for other_item in newest if (other_item.created_at, other_item.name) < BEFORE][:limit]),
        tuple(
            [
                other_definition
                for other_definition in definitions
                if filters.visible(other_definition.owner, visibility)
            ][:limit]
        ),
    ]


@pytest.mark.fault("SE08")
@pytest.mark.fault("SE18")
@settings(max_examples=examples(30))
@given(owners=OWNERS, visibility=REACHES, limit=st.integers(1, 5))
async def test_any_visibility_lists_exactly_its_jobs(owners, visibility, limit):
    jobs = [
        job(number=number, owner=owner, status=status, needs=NEEDS) for number, (owner, status) in enumerate(owners)
    ]
    running = job(number=1000, status=Status.RUNNING)
    streams = [log_stream(running, name=f"s{other_job.sequence}", owner=other_job.spec.owner) for other_job in jobs]
    store, every = InlineStore(), JobSelection(visibility=visibility)
    named = replace(every, names=frozenset({"a*", "a-job"}))
    queries = (
        PageQuery(selection=every, limit=limit),
        PageQuery(selection=named, limit=limit, before=SearchPosition(0, 5)),
        NeedQuery(resource="gold", limit=limit, visibility=visibility),
    )
    await store.commit(Changes(inserted=tuple(jobs), streams=tuple(streams)))
    definitions = [
        await store.add_definition(definition(name=f"d{other_job.sequence}", owner=other_job.spec.owner), caller=None)
        for other_job in jobs
    ]

    found = await lists(store, *queries)

    assert found == specified(jobs, streams, definitions, queries)
