"""The contract of every store: waiting jobs of shares, and consumable resources."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.enums import FINISHED, Status
from batchq.domain.ids import ConsumableName, QueueName
from batchq.domain.job import ArrayState, ConsumableRequirement
from batchq.domain.scheduling.capacity import candidate_of_job
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.task import DefinitionForm, NodeRange, Nodes, Task, TaskContainer
from batchq.errors import Conflict
from batchq.ports.catalog import NeedQuery
from batchq.ports.jobs import Changes
from tests.support import filters
from tests.support.builders import NOON, child, container, job, resources
from tests.support.examples import examples
from tests.support.inline import InlineStore

DEFAULT, OTHER = QueueName("default"), QueueName("other")
LICENCES = ConsumableName("licences")


def waiting(number, share="red", priority=None, **changes):
    fields = {"number": number, "share_identifier": share, "scheduling_priority": priority}
    return job(**fields | {"status": Status.RUNNABLE} | changes)


def use(**changes):
    return ShareUse(**{"active": 2, "millicpus": 1500, "used": 12.75, "as_of": NOON} | changes)


def needs(*quantities, resource=LICENCES):
    return tuple(ConsumableRequirement(resource=resource, quantity=quantity) for quantity in quantities)


@pytest.fixture
def insert(store):
    async def insert(*jobs):
        await store.commit(Changes(inserted=jobs))

    return insert


# --------------------------------------------------------------------------------------------------------- candidates


async def test_a_candidate_has_all_members_for_placement(store, insert):
    full = waiting(5, "red", 7, needs=needs(3), timeout=timedelta(seconds=60.5), gpus=2, millicpus=250, memory_mib=64)
    await insert(full)

    (found,) = await store.runnable(DEFAULT, 10)

    assert (found.job_id, found.sequence, found.share, found.priority) == (full.id, 5, "red", 7)
    assert found.resources == resources(gpus=2, millicpus=250, memory_mib=64)
    assert (found.requirements, found.timeout) == (needs(3), timedelta(seconds=60.5))
    assert await store.runnable_in_share(DEFAULT, "red", 10) == (found,)


async def test_a_candidate_with_several_containers_has_their_sum(store, insert):
    two = Task(containers=tuple(TaskContainer(name=name, spec=container(gpus=1)) for name in "ab"))
    gang = Nodes(count=3, ranges=(NodeRange(first=0, last=2, task=two),), form=DefinitionForm.NODES)
    await insert(job(number=1, status=Status.RUNNABLE, task=two), job(number=2, status=Status.RUNNABLE, nodes=gang))

    task, nodes = await store.runnable(DEFAULT, 10)

    assert task.resources == resources(millicpus=2000, memory_mib=256, gpus=2)
    assert nodes.resources == resources(millicpus=6000, memory_mib=768, gpus=6)


# ------------------------------------------------------------------------------------------------------- within a share


async def test_a_share_continues_after_a_priority_and_an_order(store, insert):
    await insert(waiting(1), waiting(2, priority=5), waiting(3, priority=5), waiting(4, priority=9), waiting(5))

    async def orders(after, limit=10):
        return [other_job.sequence for other_job in await store.runnable_in_share(DEFAULT, "red", limit, after=after)]

    assert await orders(None, limit=2) == [4, 2]
    assert await orders((5, 2), limit=2) == [3, 1]
    assert await orders((5, 3)) == [1, 5]
    assert await orders((0, 5)) == []
    assert await orders((7, 0)) == [2, 3, 1, 5]
    assert await orders((2**80, 0)) == [4, 2, 3, 1, 5]
    assert await orders((-(2**80), 2**80)) == []


async def test_children_wait_in_the_share_of_their_array(store, insert):
    parent = waiting(1, priority=3, array_size=2, status=Status.PENDING, array_state=ArrayState(spawned=1))
    one = child(parent, 0, status=Status.RUNNABLE)
    await insert(parent, one)

    (found,) = await store.runnable_in_share(DEFAULT, "red", 10)

    assert (found.job_id, found.priority) == (one.id, 3)
    assert await store.waiting_shares(DEFAULT) == ("red",)


# ------------------------------------------------------------------------------------------------------ what was used


async def test_the_usage_of_a_share_is_replaced(store):
    red, green = ShareKey(DEFAULT, "red"), ShareKey(DEFAULT, "green")
    elsewhere = ShareKey(OTHER, "red")
    await store.commit(Changes(shares=((red, use()), (green, use(active=1)), (elsewhere, use(active=9)))))

    await store.commit(Changes(shares=((red, use(active=0, used=0.1 + 0.2)),)))

    assert await store.shares() == {red: use(active=0, used=0.1 + 0.2), green: use(active=1), elsewhere: use(active=9)}


async def test_consumed_units_are_replaced(store):
    await store.commit(Changes(used_up=((LICENCES, 3), (ConsumableName("tokens"), 1))))

    await store.commit(Changes(used_up=((LICENCES, 5),)))

    assert await store.used_up() == {LICENCES: 5, "tokens": 1}


async def test_a_new_store_has_no_usage(store):
    assert await store.shares() == {}
    assert await store.used_up() == {}
    assert await store.waiting_shares(DEFAULT) == ()


async def test_usage_is_saved_with_its_commit_or_not_at_all(store):
    with pytest.raises(Conflict):
        await store.commit(
            Changes(updated=(job(),), shares=((ShareKey(DEFAULT, "red"), use()),), used_up=((LICENCES, 1),))
        )

    assert await store.shares() == {}
    assert await store.used_up() == {}


# ------------------------------------------------------------------------------------------------- who needs a resource


def query(**changes):
    return NeedQuery(**{"resource": LICENCES, "limit": 100} | changes)


@pytest.mark.parametrize(
    ("status", "found"), [(None, [3, 2, 1]), (Status.PENDING, [3]), (Status.FAILED, [2, 1]), (Status.RUNNING, [])]
)
async def test_an_ended_array_that_requires_a_resource_counts_as_failed(store, status, found):
    rows = {1: Status.FAILED, 2: Status.PENDING, 3: Status.PENDING}
    await store.commit(Changes(inserted=tuple(job(number=row, status=rows[row], needs=needs(1)) for row in rows)))

    selection = query(status=status, ended_arrays=frozenset({1, 2}))

    assert [other_job.sequence for other_job in await store.list_needing(selection)] == found


async def orders(store, **changes):
    return [other_job.sequence for other_job in await store.list_needing(query(**changes))]


async def test_jobs_that_require_a_resource_are_listed_newest_first(store, insert):
    other = ConsumableName("tokens")
    both = (*needs(1), *needs(2, resource=other))
    await insert(
        job(number=4, needs=needs(1), status=Status.FAILED),
        job(number=2, needs=both, queue=OTHER),
        job(number=3),
        job(number=7, needs=needs(1, resource=other)),
    )

    assert await orders(store) == [4, 2]
    assert await orders(store, resource=other) == [7, 2]
    assert await orders(store, resource="none") == []
    assert await orders(store, resource="\ud800") == []


async def test_a_resource_named_twice_lists_its_job_once(store, insert):
    twice = job(number=1, needs=needs(1, 2))
    await insert(twice)

    assert await store.list_needing(query()) == (twice,)


async def test_the_list_of_a_resource_is_filtered_by_status_and_name(store, insert):
    await insert(
        job(number=1, needs=needs(1), name="Train"),
        job(number=2, needs=needs(1), name="trains", status=Status.RUNNING),
        job(number=3, needs=needs(1), name="t_ain", status=Status.RUNNING),
    )

    assert await orders(store, status=Status.RUNNING) == [3, 2]
    assert await orders(store, name="TRAIN") == [1]
    assert await orders(store, name="train*", status=Status.RUNNING) == [2]
    assert await orders(store, name="t?ain") == []
    assert await orders(store, name="*") == [3, 2, 1]


async def test_a_list_by_status_follows_the_status_of_a_job(store, insert):
    moving = job(number=1, needs=needs(1))
    await insert(moving)

    await store.commit(Changes(updated=(replace(moving, status=Status.RUNNABLE),)))

    assert await orders(store, status=Status.SUBMITTED) == []
    assert await orders(store, status=Status.RUNNABLE) == [1]


async def test_an_array_represents_its_children_in_the_list_of_a_resource(store, insert):
    parent = job(number=1, needs=needs(1), array_size=2, status=Status.PENDING, array_state=ArrayState(spawned=1))
    one = child(parent, 0)
    await insert(parent, one)

    assert await store.list_needing(query()) == (parent,)


# ------------------------------------------------------------------------------------------- SQL and the specification

WAITING = st.lists(
    st.fixed_dictionaries(
        {
            "status": st.sampled_from([Status.RUNNABLE, Status.RUNNABLE, Status.PENDING, Status.FAILED]),
            "unschedulable": st.sampled_from([False, False, True]),
            "queue": st.sampled_from([DEFAULT, DEFAULT, OTHER]),
            "share_identifier": st.none() | st.sampled_from(["a", "b", "\u00e9", "\U0001f600"]),
            "scheduling_priority": st.none() | st.integers(-1, 2),
            "needs": st.sampled_from([(), needs(1), needs(2, resource="tokens")]),
            "timeout": st.none() | st.timedeltas(timedelta(0), timedelta(days=9)),
        }
    ),
    max_size=12,
)
MOVES = st.lists(st.tuples(st.integers(0, 11), st.sampled_from(Status), st.booleans()), max_size=4)
PAGES = st.tuples(st.integers(1, 3), st.none() | st.tuples(st.integers(-2, 3), st.integers(-1, 12)))


async def pages(store, limit, after):
    """The pages of shares that a placement pass reads, and the list of a resource."""
    shares = await store.waiting_shares(DEFAULT)
    order = None if after is None else after[1]
    return (
        shares,
        [await store.runnable_in_share(DEFAULT, share, limit, after=after) for share in shares],
        await store.runnable(DEFAULT, limit, after=-1 if order is None else order),
        await store.unschedulable(limit),
        await store.list_needing(query(limit=limit, before=order)),
        await store.unfinished_in(DEFAULT),
    )


def specified(jobs, limit, after):
    """The same pages, by predicates. `after` is a priority and an order."""
    in_order = [other_job for other_job in jobs if other_job.status is Status.RUNNABLE]
    unschedulable = [other_job for other_job in in_order if other_job.unschedulable]
    waiting = [
        candidate_of_job(other_job)
        for other_job in in_order
        if other_job.spec.queue == DEFAULT and not other_job.unschedulable
    ]
    shares = sorted({other_job.share for other_job in waiting if other_job.share is not None})
    order = -1 if after is None else after[1]
    by_rank = sorted(waiting, key=_rank)
    behind = [job for job in by_rank if after is None or _rank(job) > (-after[0], after[1])]
    return (
        tuple(shares),
        [tuple([other_job for other_job in behind if other_job.share == share][:limit]) for share in shares],
        tuple([other_job for other_job in waiting if other_job.sequence > order][:limit]),
        tuple(unschedulable[:limit]),
        filters.listed_needing(jobs, query(limit=limit, before=None if after is None else order)),
        sum(other_job.spec.queue == DEFAULT and other_job.status not in FINISHED for other_job in jobs),
    )


def _rank(of):
    return -of.priority, of.sequence


@settings(max_examples=examples(40))
@given(made=WAITING, moves=MOVES, pages_read=st.lists(PAGES, min_size=1, max_size=5))
async def test_any_page_of_a_share_has_the_jobs_of_its_specification(made, moves, pages_read):
    jobs = {number: job(number=number, **of) for number, of in enumerate(made)}
    moved = {move: replace(jobs[move], status=to, unschedulable=misfit) for move, to, misfit in moves if move in jobs}
    store = InlineStore()
    await store.commit(Changes(inserted=tuple(jobs.values())))
    await store.commit(Changes(updated=tuple(moved.values())))
    stored = list(store.all_jobs().values())

    found = [await pages(store, *page) for page in pages_read]

    assert found == [specified(stored, *page) for page in pages_read]
