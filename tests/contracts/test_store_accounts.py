"""The contract of every store: queries about jobs of accounts."""

from collections import Counter

from msgspec.structs import replace

from batchq.domain.access.accounts import Owner
from batchq.domain.ids import child_id
from batchq.domain.job import ArrayChild, ArrayState, Status
from batchq.ports.history import HistoryEntry
from batchq.ports.jobs import Changes
from tests.support.builders import NOON, attempt, job

LAB, OTHER = Owner(user="ada", account="lab"), Owner(user="bob", account="other")


def owned(number, owner=LAB, **changes):
    return job(number=number, owner=owner, **{"status": Status.RUNNABLE} | changes)


def child_of(parent, index, **changes):
    made = owned(parent.order + 1 + index, array_size=parent.spec.array_size, **changes)
    return replace(made, id=child_id(parent.id, index), child=ArrayChild(parent=parent.id, index=index))


def over(it):
    return HistoryEntry(job_id=it.id, at=NOON, status=it.status, reason=None, attempt=None)


async def test_queued_jobs_are_counted_by_account(store):
    ended = owned(6, status=Status.SUCCEEDED)
    await store.commit(
        Changes(
            inserted=(
                owned(1, status=Status.SUBMITTED),
                owned(2, status=Status.PENDING),
                owned(3),
                owned(4, unschedulable=True),
                owned(5, status=Status.RUNNING, attempt=attempt()),
                ended,
                owned(7, OTHER),
                owned(8, Owner(user="eve", account="lab")),
            ),
            history=(over(ended),),
        )
    )

    assert await store.queued() == {"lab": 5, "other": 1}


async def test_an_array_counts_as_its_unspawned_children(store):
    fresh = owned(100, array_size=7, status=Status.SUBMITTED)
    begun = owned(200, array_size=5, status=Status.PENDING, array_state=ArrayState(spawned=3))
    gone = owned(300, array_size=9, status=Status.FAILED)
    done = child_of(begun, 1, status=Status.SUCCEEDED)
    children = (child_of(begun, 0), done, child_of(begun, 2, status=Status.STARTING, attempt=attempt()))
    await store.commit(Changes(inserted=(fresh, begun, gone, *children), history=(over(gone), over(done))))

    assert +Counter(await store.queued()) == {"lab": 7 + 2 + 1}


async def test_jobs_of_excluded_accounts_are_skipped(store):
    third = Owner(user="eve", account="third")
    mine, other, thirds = owned(1), [owned(it, OTHER) for it in (2, 4, 6)], [owned(it, third) for it in (3, 5)]
    elsewhere, misfit = owned(7, third, queue="other"), owned(8, third, unschedulable=True)
    await store.commit(Changes(inserted=(mine, *other, *thirds, elsewhere, misfit)))

    async def found(limit, after, *beside):
        return [it.order for it in await store.runnable("default", limit, after, excluding=frozenset(beside))]

    assert await found(10, -1) == [1, 2, 3, 4, 5, 6]
    assert await found(10, -1, "lab") == [2, 3, 4, 5, 6]
    assert await found(10, -1, "other", "no such") == [1, 3, 5]
    assert await found(2, 1, "other") == [3, 5]
    assert await found(1, 3, "other", "lab") == [5]
    assert await found(10, -1, "lab", "other", "third") == []


async def test_a_candidate_has_its_owner(store):
    await store.commit(Changes(inserted=(owned(1),)))

    assert [it.account for it in await store.runnable("default", 1)] == ["lab"]
    assert [it.account for it in await store.runnable("default", 1, excluding=frozenset({"other"}))] == ["lab"]


async def test_in_a_share_jobs_of_excluded_accounts_are_skipped(store):
    def in_share(number, owner, priority):
        return owned(number, owner, share_identifier="red", scheduling_priority=priority)

    inserted = (in_share(1, LAB, 1), in_share(2, OTHER, 1), in_share(3, OTHER, 9), in_share(4, LAB, 9))
    await store.commit(Changes(inserted=(*inserted, in_share(5, OTHER, 1))))

    async def found(limit, after, *beside):
        got = await store.runnable_in_share("default", "red", limit, after, excluding=frozenset(beside))
        return [it.order for it in got]

    assert await found(10, None) == [3, 4, 1, 2, 5]
    assert await found(10, None, "lab") == [3, 2, 5]
    assert await found(10, (9, 3), "lab") == [2, 5]
    assert await found(1, (1, 2), "lab") == [5]
    assert await found(10, None, "lab", "other") == []
