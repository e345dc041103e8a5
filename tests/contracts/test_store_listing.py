"""The contract of every store: lists of jobs."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.access.accounts import NO_OWNER, Visibility
from batchq.domain.ids import DefinitionRef, QueueName
from batchq.domain.job import Status
from batchq.ports.jobs import Changes, Filter, JobQuery
from tests.support import filters
from tests.support.builders import NOON, job
from tests.support.examples import examples
from tests.support.inline import InlineStore

NOON_MS = 1795262400000


def query(**changes):
    return JobQuery(**{"queue": QueueName("default"), "limit": 100} | changes)


def by(name, *values, **changes):
    return query(filter=Filter[name], values=values, **changes)


@pytest.fixture
def listed(store):
    """The numbers of the jobs that the store lists."""

    async def listed(jobs, query):
        await store.commit(Changes(inserted=tuple(jobs)))
        return [it.order for it in await store.list(query)]

    return listed


@pytest.mark.parametrize(
    ("status", "found"),
    [(None, [9, 6, 5, 4, 2, 1]), (Status.PENDING, [6, 2]), (Status.FAILED, [9, 5, 4]), (Status.RUNNABLE, [1])],
)
async def test_an_ended_array_counts_as_failed_although_its_row_is_pending(store, status, found):
    rows = {1: "RUNNABLE", 2: "PENDING", 4: "PENDING", 5: "FAILED", 6: "PENDING", 9: "FAILED"}
    jobs = tuple(job(number=number, status=Status[status]) for number, status in rows.items())
    elsewhere = job(number=7, status=Status.PENDING, queue=QueueName("other"))
    await store.commit(Changes(inserted=(*jobs, elsewhere)))
    selection = query(status=status, ended_arrays=frozenset({1, 4, 5, 7}))

    assert [it.order for it in await store.list(selection)] == found
    assert [it.order for it in await store.list(replace(selection, before=5))] == [it for it in found if it < 5]
    assert [it.order for it in await store.list(replace(selection, limit=2))] == found[:2]
    assert [it.order for it in await store.list(replace(selection, visibility=Visibility(user=NO_OWNER.user)))] == found


async def test_a_listed_job_is_complete(store):
    full = job(status=Status.FAILED, status_reason="so", tags=(("a", "b"),))
    await store.commit(Changes(inserted=(full,)))

    assert await store.list(query()) == (full,)


async def test_an_unknown_queue_has_no_jobs(listed):
    assert await listed([job()], query(queue=QueueName("\ud800"))) == []


@pytest.mark.fault("SE18")
@pytest.mark.parametrize(
    "wild", ["_rain", "%rain", "t?ain", "[t]rain", "tr*n", "train**", "*train", "t%*", ".*", "'--"]
)
async def test_no_other_character_of_a_name_is_a_wildcard(listed, wild):
    assert await listed([job(name="train")], by("JOB_NAME", wild)) == []


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("name", ["a_b", "a%b", "a*b", "a'b", 'a"b', "a[b", "a\\b"])
async def test_every_character_of_a_name_matches_itself(listed, name):
    jobs = [job(number=1, name=name), job(number=2, name="axb"), job(number=3, name=f"{name}c")]

    assert await listed(jobs, by("JOB_NAME", name)) == [1]


async def test_a_filter_without_values_matches_nothing(listed):
    assert await listed([job()], by("JOB_NAME")) == []


async def test_a_thousand_values_are_accepted(listed):
    assert await listed([job(number=1, name="n77*")], by("JOB_NAME", *(f"n{number}*" for number in range(2000)))) == [1]


@pytest.mark.parametrize("rest", ["", "*"])
async def test_seventeen_thousand_values_are_accepted(listed, store, rest):
    jobs = [job(number=number, name=f"n{number}") for number in (3, 16_999, 17_000)]
    many = [f"n{number:05}{rest}" for number in range(17_000)] + [f"n3{rest}"]

    assert await listed(jobs, by("JOB_NAME", *many)) == [16_999, 3]
    assert [it.order for it in await store.list(by("JOB_NAME", *many, limit=1))] == [16_999]
    assert [it.order for it in await store.list(by("JOB_NAME", *many, limit=1, before=16_999))] == [3]


@pytest.mark.parametrize("moment", ["", "noon", "-1", "1e3", "٣", " 5", "9" * 5000])
async def test_an_invalid_time_matches_nothing(listed, store, moment):
    assert await listed([job()], by("AFTER_CREATED_AT", moment)) == []
    assert await store.list(by("BEFORE_CREATED_AT", "")) == ()


async def test_a_time_beyond_the_calendar_is_after_every_job(listed):
    assert await listed([job(number=1)], by("BEFORE_CREATED_AT", "9" * 19)) == [1]


# ------------------------------------------------------------------------------------------- SQL and the specification

LETTERS = st.text(alphabet="aAbB*%_?[:1\u00e9\u0130", max_size=4)
QUERIES = st.builds(
    query,
    filter=st.none() | st.sampled_from(Filter),
    values=st.lists(LETTERS | st.integers(NOON_MS - 3, NOON_MS + 3).map(str), max_size=3).map(tuple),
    status=st.none() | st.sampled_from(Status),
    before=st.none() | st.integers(-1, 10**30),
    limit=st.integers(1, 5),
    ended_arrays=st.frozensets(st.integers(0, 7), max_size=4),
)
JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "name": LETTERS,
            "definition": st.builds(DefinitionRef, name=LETTERS, revision=st.integers(1, 11)),
            "share_identifier": st.none() | LETTERS,
            "status": st.sampled_from(Status),
            "queue": st.sampled_from([QueueName("default"), QueueName("default"), QueueName("other")]),
            "created_at": st.integers(-2, 2).map(lambda ms: NOON + timedelta(milliseconds=ms)),
        }
    ),
    max_size=8,
)


@pytest.mark.fault("SE18")
@settings(max_examples=examples(40))
@given(made=JOBS, query=st.lists(QUERIES, min_size=1, max_size=10))
async def test_any_filter_lists_the_jobs_of_its_specification(made, query):
    jobs, store = [job(number=number, **of) for number, of in enumerate(made)], InlineStore()
    await store.commit(Changes(inserted=tuple(jobs)))

    found = [await store.list(each) for each in query]

    assert found == [filters.listed(jobs, each) for each in query]
