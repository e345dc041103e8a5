"""The contract of every store: to delete finished jobs."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.enums import DependencyType, Status
from batchq.domain.ids import ConsumableName, QueueName, child_id, stream_name
from batchq.domain.job import ArrayState, ConsumableRequirement, Dependency
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.ports.catalog import NeedQuery
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from tests.support.builders import NOON, attempt, child, job, job_id, log_stream, moment, submission
from tests.support.examples import examples
from tests.support.inline import InlineStore

DEFAULT = QueueName("default")
DAY = timedelta(days=1)
ENDED = Status.SUCCEEDED
NEEDS = (ConsumableRequirement(resource=ConsumableName("licences"), quantity=1),)


async def saved(store, *jobs, at=NOON, **changes):
    await store.commit(Changes(inserted=jobs, history=tuple(moment(other_job, at=at) for other_job in jobs), **changes))


def over(number, **changes):
    return job(**{"number": number, "status": ENDED, "attempts": (attempt(),)} | changes)


def array(number, size, status=ENDED, **changes):
    """A parent and its children, all of the same status."""
    parent = job(
        **{"number": number, "status": status, "array_size": size, "array_state": ArrayState(spawned=size)} | changes
    )
    return parent, *(child(parent, index, status=status, attempts=(attempt(),)) for index in range(size))


async def pruned(store, *, before=NOON + DAY, keep=(), limit=100):
    """How many jobs go in each step, until nothing is left."""
    steps, after = [], None
    while True:
        done = await store.prune(before, keep=keep, after=after, limit=limit)
        steps.append(done.jobs)
        after = done.after
        if after is None:
            return steps


async def left(store):
    return sorted(other_job.sequence for other_job in (await store.list(PageQuery(limit=1000))).jobs)


NEWEST = job(number=900)


@pytest.fixture
async def kept(store):
    """A store whose newest job is not one of the test."""
    await saved(store, NEWEST)
    return store


async def test_the_end_of_a_job_is_the_time_of_its_final_status(kept):
    running = job(number=1, status=Status.RUNNING)
    await saved(kept, running, at=NOON)
    ended = replace(running, status=ENDED, attempt=None)
    await kept.commit(Changes(updated=(ended,), history=(moment(ended, at=NOON + DAY),)))
    await kept.commit(Changes(updated=(replace(ended, version=1, tags=(("a", "b"),)),)))

    assert await pruned(kept, before=NOON + DAY) == [0]
    assert await pruned(kept, before=NOON + 2 * DAY) == [1]


async def test_all_rows_of_a_job_are_deleted_with_it(kept):
    gone, stays = over(1, needs=NEEDS), over(2, needs=NEEDS)
    streams = tuple(
        log_stream(job(number=other_job.sequence, status=Status.RUNNING), name=_stream(other_job))
        for other_job in (gone, stays)
    )
    await saved(kept, gone, streams=streams[:1], submissions=((submission(), gone.id, NOON),))
    await saved(kept, stays, at=NOON + DAY, streams=streams[1:])

    await pruned(kept)

    assert await kept.history(gone.id) == ()
    assert await kept.stream(_stream(gone)) is None
    assert await kept.stream(_stream(stays)) == streams[1]
    assert await kept.submissions([submission()]) == {}
    assert [other_job.sequence for other_job in await kept.list_needing(NeedQuery(resource="licences", limit=10))] == [
        2
    ]
    assert await kept.deleted_log_ids(10) == (container_tags(gone)[0].log_id,)


def _stream(of):
    return stream_name(of.spec.definition.name, container_tags(of)[0])


async def test_a_deleted_log_is_not_deleted_again(kept):
    await saved(kept, over(1), over(2))
    await pruned(kept)
    first, second = await kept.deleted_log_ids(10)

    await kept.mark_deleted([first])

    assert await kept.deleted_log_ids(10) == (second,)
    assert len(await kept.deleted_log_ids(1)) == 1


async def test_the_oldest_jobs_are_deleted_first_in_batches(kept):
    for number in range(7):
        await saved(kept, over(number), at=NOON - number * DAY)

    first = await kept.prune(NOON + DAY, keep=(), limit=3)

    assert first.jobs == 3
    assert await left(kept) == [0, 1, 2, 3, 900]
    assert sum(await pruned(kept, limit=3)) == 4


# -------------------------------------------------------------------------------------------------------------- arrays


async def test_children_are_deleted_before_their_array(kept):
    await saved(kept, *array(10, 5))
    first = await kept.prune(NOON + DAY, keep=(), limit=4)
    half_way = (
        await left(kept),
        await children_left(kept, job_id(10)),
    )

    await pruned(kept)

    assert first.jobs == 4
    assert half_way == ([10, 900], 1)
    assert await left(kept) == [900]
    assert await kept.jobs([child_id(job_id(10), index) for index in range(5)]) == {}
    assert len(await kept.deleted_log_ids(100)) == 5


async def test_no_child_is_deleted_before_its_array_has_ended(kept):
    parent, *children = array(10, 2)
    await saved(kept, replace(parent, status=Status.PENDING), *children)

    await pruned(kept)

    assert await children_left(kept, parent.id) == 2


async def test_an_array_is_kept_while_a_job_waits_for_a_child(kept):
    await saved(kept, *array(10, 3), job(number=20, depends_on=[child_id(job_id(10), 1)]))

    await pruned(kept)

    assert await left(kept) == [10, 20, 900]
    assert await children_left(kept, job_id(10)) == 3


async def test_an_array_is_kept_for_unspawned_n_to_n_dependents(kept):
    on_each = [Dependency(job_id=job_id(10), type=DependencyType.N_TO_N)]
    spawning = job(
        number=30, status=Status.PENDING, array_size=2, depends_on=on_each, array_state=ArrayState(spawned=1)
    )
    await saved(kept, *array(10, 2), *array(20, 2), spawning)

    await pruned(kept)

    assert await left(kept) == [10, 30, 900]


async def test_an_array_is_kept_for_n_to_n_dependents(kept):
    on_each = [Dependency(job_id=job_id(10), type=DependencyType.N_TO_N)]
    await saved(kept, *array(10, 2), *array(20, 2, status=Status.PENDING, depends_on=on_each))

    await pruned(kept)

    assert await left(kept) == [10, 20, 900]


# -------------------------------------------------------------------------------------------------------------- shares


async def test_unused_shares_are_deleted(store):
    idle, lately = ShareUse(as_of=NOON, used=1.0), ShareUse(as_of=NOON + DAY)
    used = [ShareUse(as_of=NOON, active=1), ShareUse(as_of=NOON, millicpus=250)]
    uses = {ShareKey(DEFAULT, str(number)): use for number, use in enumerate([idle, lately, *used, idle])}
    await store.commit(Changes(shares=tuple(uses.items())))

    after = await store.prune_shares(NOON + DAY, limit=2)
    while after is not None:
        after = await store.prune_shares(NOON + DAY, after=after, limit=2)

    assert {key.share for key in await store.shares()} == {"1", "2", "3"}


# ---------------------------------------------------------------------------------------- SQL and the specification

GROUPS = st.lists(
    st.fixed_dictionaries(
        {
            "size": st.sampled_from([0, 0, 1, 3, 7]),
            "over": st.booleans(),
            "day": st.integers(0, 4),
            "waits_for": st.none() | st.integers(0, 9),
        }
    ),
    max_size=10,
)


def jobs_of(index, made):
    """The jobs of an index: orders begin at a hundred times the index; a waiting job depends on an earlier one."""
    status = ENDED if made["over"] else Status.PENDING
    earlier = made["waits_for"] if made["waits_for"] is not None and made["waits_for"] < index else None
    fields = {"depends_on": [] if earlier is None or made["over"] else [job_id(earlier * 100)]}
    if made["size"]:
        return array(index * 100, made["size"], status=status, **fields)
    return (over(index * 100, status=status, **fields),)


def unneeded(groups, keep, day):
    """The indices of groups that are deleted. An array that has all its children waits for no job any more."""
    waits = ((index, made) for index, made in enumerate(groups) if not (made["over"] or made["size"]))
    waiting = [(index, made["waits_for"]) for index, made in waits]
    kept = {*keep, len(groups) - 1, *(on for index, on in waiting if on is not None and on < index)}
    return {index for index, made in enumerate(groups) if made["over"] and made["day"] < day} - kept


@settings(max_examples=examples(40))
@given(groups=GROUPS, keep=st.sets(st.integers(0, 9)), limit=st.integers(1, 6), day=st.integers(0, 5))
async def test_only_unneeded_arrays_and_jobs_are_deleted(groups, keep, limit, day):
    store, jobs = InlineStore(), [jobs_of(index, made) for index, made in enumerate(groups)]
    for of, made in zip(jobs, groups, strict=True):
        await saved(store, *of, at=NOON + made["day"] * DAY)
    last = await store.last_sequence()

    done = await pruned(store, before=NOON + day * DAY, keep={job_id(index * 100) for index in keep}, limit=limit)

    gone = [other_job for index in unneeded(groups, keep, day) for other_job in jobs[index]]
    assert set(await store.jobs([other_job.id for of in jobs for other_job in of])) == {
        other_job.id for of in jobs for other_job in of
    } - {other_job.id for other_job in gone}
    assert set(await store.deleted_log_ids(1000)) == {tag.log_id for job in gone for tag in container_tags(job)}
    assert await store.last_sequence() == last
    assert sum(done) == len(gone)
    assert all(step <= limit for step in done)


async def children_left(store, parent):
    return len((await store.list(PageQuery(selection=JobSelection(parent=parent), limit=10))).jobs)
