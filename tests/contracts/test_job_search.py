"""The contract of every store: the job search equals a filter over all jobs, page by page."""

from datetime import timedelta
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Owner, UserName, Visibility
from batchq.domain.enums import ACTIVE, FINISHED, Status, StopKind
from batchq.domain.ids import DefinitionRef, QueueName, child_id
from batchq.domain.job import ArrayChild
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_values import Hold, StopOrder
from batchq.ports.job_search import JobCount, PageQuery, SearchOrder
from batchq.ports.jobs import Changes
from batchq.store import job_search
from tests.support.builders import NOON, attempt, job, job_id, moment
from tests.support.examples import examples
from tests.support.filters import searched
from tests.support.inline import InlineStore

NOON_MS = 1795262400000


def any_of(values):
    return st.frozensets(st.sampled_from(values), min_size=1, max_size=4)


NAMES = ["train", "Train-1", "eval", "a*b", ""]
PATTERNS = ["train", "TRAIN*", "*a*", "*-1", "*", "a*b", "**", "x"]
DEFINITIONS = ["a", "ab", "b"]
OWNERS = [Owner(user=UserName(user), account=AccountName(account)) for user in "uv" for account in ("lab", "team")]
TIMES = st.integers(NOON_MS - 2, NOON_MS + 12)

SINGLE = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "queue": st.sampled_from([QueueName("default"), QueueName("other")]),
        "status": st.sampled_from(Status),
        "definition": st.builds(DefinitionRef, name=st.sampled_from(DEFINITIONS), revision=st.integers(1, 2)),
        "share_identifier": st.none() | st.sampled_from(["red", "blue"]),
        "owner": st.sampled_from(OWNERS),
        "hold": st.sampled_from([None, None, Hold(reason="not yet", held_at=NOON)]),
    }
)
CHILDREN = st.lists(st.sampled_from(Status), max_size=3)
FILTERS = {
    "queues": any_of(["default", "other", "none"]),
    "statuses": any_of(list(Status)),
    "names": any_of(PATTERNS),
    "definitions": any_of(["a", "a*", "b:1", "ab:2", ":", "a:x"]),
    "shares": any_of(["red", "none"]),
    "users": any_of(["u", "v", "w"]),
    "accounts": any_of(["lab", "team"]),
    "ids": st.lists(st.integers(0, 12).map(job_id), max_size=6).map(tuple),
    "id_prefix": st.sampled_from([job_id(1), job_id(0)[:13], f"{job_id(2)}:"]),
    "parent": st.integers(0, 8).map(job_id),
    "created_after": TIMES,
    "created_before": TIMES,
    "ended_after": TIMES,
    "ended_before": TIMES,
    "exit_codes": st.sets(st.integers(0, 3), min_size=1).map(frozenset),
    "held": st.just(True),
    "stopped": st.booleans(),
    "environments": any_of(["east", "west"]),
    "children": st.just(True),
    "visibility": st.builds(
        Visibility, user=st.sampled_from(["u", "x"]), accounts=st.frozensets(st.sampled_from(["lab", "team"]))
    ),
}
#: Few filters at a time: a query with many of them finds nothing.
QUERIES = st.lists(st.sampled_from(sorted(FILTERS)), max_size=2, unique=True).flatmap(
    lambda names: st.builds(
        PageQuery,
        selection=st.builds(JobSelection, **{name: FILTERS[name] for name in names}),
        order_by=st.sampled_from(SearchOrder),
        limit=st.integers(1, 4),
    )
)


def made_of(singles):
    """Jobs in the order of submission; an array is followed by its children, of which some do not exist yet."""
    jobs, order = [], 0
    for number, (of, children) in enumerate(singles):
        size = {"array_size": 3} if children else {}
        whole = job(number=order, created_at=NOON + timedelta(milliseconds=number), **of, **size)
        jobs.append(whole)
        for index, status in enumerate(children):
            jobs.append(
                replace(
                    whole,
                    id=child_id(whole.id, index),
                    sequence=whole.sequence + 1 + index,
                    child=ArrayChild(parent=whole.id, index=index),
                    status=status,
                )
            )
        order += 1 + (3 if children else 0)
    return [_with_attempt(other_job) for other_job in jobs]


def _with_attempt(other_job):
    """An active job runs in an environment. Most jobs have an earlier attempt with an exit code, and some an order."""
    environment = ("east", "west", "north")[other_job.sequence % 3]
    run = attempt(environment=environment)
    earlier = () if other_job.sequence % 4 == 0 else (replace(run, exit_code=other_job.sequence % 3),)
    kinds = ((), (StopKind.CANCEL,), (StopKind.PAUSE, StopKind.TERMINATE), (StopKind.TIMEOUT,))[
        other_job.sequence // 2 % 4
    ]
    orders = tuple(StopOrder(kind=kind, reason="", ordered_at=NOON) for kind in kinds)
    return replace(other_job, attempts=earlier, attempt=run if other_job.status in ACTIVE else None, stop_orders=orders)


async def whole_search(store, query):
    """All pages, one after the other."""
    orders, pages = [], 0
    while True:
        page = await store.search(query)
        orders += [other_job.sequence for other_job in page.jobs]
        pages += 1
        assert len(page.jobs) <= query.limit
        assert (page.next is None) is (page.searched_back_to is None)
        assert pages < 500
        if page.next is None:
            return orders
        assert query.before is None or page.next < query.before
        query = replace(query, before=page.next)


def _supported(query):
    """The query as the store supports it: in the order of ends, children are found by their array or their ids only."""
    selection = query.selection
    named = selection.parent is not None or selection.ids is not None or selection.id_prefix is not None
    children = selection.children and (named or query.order_by is SearchOrder.CREATED)
    return replace(query, selection=replace(selection, children=children))


@pytest.mark.fault("SE18")
@settings(max_examples=examples(200), deadline=None)
@given(
    singles=st.lists(st.tuples(SINGLE, CHILDREN), min_size=3, max_size=9),
    data=st.data(),
    bound=st.sampled_from([50_000, 7]),
)
async def test_any_search_finds_the_jobs_of_its_specification(singles, data, bound):
    """`bound`: the most that a page may cost; the small one ends most pages before they are full."""
    jobs, store = made_of(singles), InlineStore()
    ended = {
        other_job.id: NOON + timedelta(milliseconds=other_job.sequence % 5)
        for other_job in jobs
        if other_job.status in FINISHED
    }
    history = tuple(moment(other_job, at=ended[other_job.id]) for other_job in jobs if other_job.id in ended)
    await store.commit(Changes(inserted=tuple(jobs), history=history))
    arrays = [other_job for other_job in jobs if other_job.spec.array_size is not None and other_job.child is None]
    stopped = data.draw(
        st.lists(st.sampled_from(arrays), unique_by=lambda value: value.sequence) if arrays else st.just([])
    )
    over = {
        other_value.sequence: NOON + timedelta(milliseconds=3) for other_value in stopped if other_value.sequence % 2
    }
    for query in data.draw(st.lists(QUERIES, min_size=1, max_size=5)):
        stopped_arrays = frozenset(other_value.sequence for other_value in stopped)
        supported = replace(_supported(query), ended_arrays=over, stopped_arrays=stopped_arrays)
        with patch.multiple(job_search, MAX_ROWS=bound, MAX_COUNTED_ROWS=bound, MIN_CHUNK=min(64, bound)):
            listed = await whole_search(store, supported)
            (counted,) = await store.counts([supported])
        assert listed == [other_value.sequence for other_value in searched(jobs, supported, ended)]
        assert counted.jobs <= len(listed)
        assert not counted.is_exact or counted.jobs == len(listed)
        assert counted.is_exact or bound == 7 or counted.jobs == supported.limit < len(listed)


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("wild", ["_rain", "%rain", "t?ain", "[t]rain", "tr*n", "train**", "t%*", ".*", "'--"])
async def test_only_asterisks_at_the_ends_of_a_name_are_wildcards(store, wild):
    assert await named(store, [job(name="train")], wild) == []


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("name", ["a_b", "a%b", "a*b", "a'b", 'a"b', "a[b", "a\\b"])
async def test_every_character_of_a_name_matches_itself(store, name):
    jobs = [job(number=1, name=name), job(number=2, name="axb"), job(number=3, name=f"{name}c")]

    assert await named(store, jobs, name) == [1]


async def test_an_empty_set_of_names_matches_nothing(store):
    assert await named(store, [job()]) == []


async def test_a_found_job_is_complete(store):
    full = job(status=Status.FAILED, status_reason="so", tags=(("a", "b"),))
    await store.commit(Changes(inserted=(full,)))

    assert (await store.search(PageQuery(limit=9))).jobs == (full,)
    assert (await store.list(PageQuery(limit=9))).jobs == (full,)


async def named(store, jobs, *names):
    await store.commit(Changes(inserted=tuple(jobs)))
    page = await store.search(PageQuery(selection=JobSelection(names=frozenset(names)), limit=9))
    return [other_job.sequence for other_job in page.jobs]


async def test_failed_jobs_with_a_rare_name_are_counted_exactly_behind_many_others(store):
    """They have an index of their own: a count reads no row of the others."""
    others = [job(number=number, status=Status.SUCCEEDED, name="fit") for number in range(30)]
    failed = [job(number=number, status=Status.FAILED, name="rare") for number in range(30, 33)]
    history = tuple(moment(each, at=NOON) for each in (*others, *failed))
    await store.commit(Changes(inserted=(*failed, *others), history=history))
    query = PageQuery(selection=JobSelection(statuses=frozenset({Status.FAILED}), names=frozenset({"*are*"})), limit=9)
    with patch.object(job_search, "MAX_COUNTED_ROWS", 8):
        assert await store.counts([query]) == (JobCount(jobs=3, is_exact=True),)
