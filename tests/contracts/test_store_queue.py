"""The contract of every store: queued jobs of accounts, and their places in a queue or share."""

from collections import Counter

import pytest

from batchq.domain.access.accounts import Owner
from batchq.domain.enums import Status
from batchq.domain.explanation.facts import MAX_PLACE, QueuePosition
from batchq.domain.ids import QueueName
from batchq.domain.job import ArrayState
from batchq.ports.jobs import Changes
from batchq.ports.queue import waiting_job
from batchq.store import job_reads
from tests.support.builders import attempt, child, job, moment

LAB, OTHER = Owner(user="ada", account="lab"), Owner(user="bob", account="other")


def owned(number, owner=LAB, **changes):
    return job(number=number, owner=owner, **{"status": Status.RUNNABLE} | changes)


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
            history=(moment(ended),),
        )
    )

    assert await store.queued() == {"lab": 5, "other": 1}


async def test_an_array_counts_as_its_unspawned_children(store):
    fresh = owned(100, array_size=7, status=Status.SUBMITTED)
    begun = owned(200, array_size=5, status=Status.PENDING, array_state=ArrayState(spawned=3))
    gone = owned(300, array_size=9, status=Status.FAILED)
    done = child(begun, 1, status=Status.SUCCEEDED)
    running = child(begun, 2, status=Status.STARTING, attempt=attempt())
    children = (child(begun, 0, status=Status.RUNNABLE), done, running)
    await store.commit(Changes(inserted=(fresh, begun, gone, *children), history=(moment(gone), moment(done))))

    assert +Counter(await store.queued()) == {"lab": 7 + 2 + 1}


async def test_jobs_of_excluded_accounts_are_skipped(store):
    third = Owner(user="eve", account="third")
    mine, other, thirds = (
        owned(1),
        [owned(number, OTHER) for number in (2, 4, 6)],
        [owned(number, third) for number in (3, 5)],
    )
    elsewhere, misfit = owned(7, third, queue="other"), owned(8, third, unschedulable=True)
    await store.commit(Changes(inserted=(mine, *other, *thirds, elsewhere, misfit)))

    async def found(limit, after, *beside):
        return [
            other_job.sequence
            for other_job in await store.runnable("default", limit, after, excluding=frozenset(beside))
        ]

    assert await found(10, -1) == [1, 2, 3, 4, 5, 6]
    assert await found(10, -1, "lab") == [2, 3, 4, 5, 6]
    assert await found(10, -1, "other", "no such") == [1, 3, 5]
    assert await found(2, 1, "other") == [3, 5]
    assert await found(1, 3, "other", "lab") == [5]
    assert await found(10, -1, "lab", "other", "third") == []


async def test_a_candidate_has_its_owner(store):
    await store.commit(Changes(inserted=(owned(1),)))

    assert [record.account for record in await store.runnable("default", 1)] == ["lab"]
    assert [record.account for record in await store.runnable("default", 1, excluding=frozenset({"other"}))] == ["lab"]


async def test_in_a_share_jobs_of_excluded_accounts_are_skipped(store):
    def in_share(number, owner, priority):
        return owned(number, owner, share_identifier="red", scheduling_priority=priority)

    inserted = (in_share(1, LAB, 1), in_share(2, OTHER, 1), in_share(3, OTHER, 9), in_share(4, LAB, 9))
    await store.commit(Changes(inserted=(*inserted, in_share(5, OTHER, 1))))

    async def found(limit, after, *beside):
        got = await store.runnable_in_share("default", "red", limit, after, excluding=frozenset(beside))
        return [other_job.sequence for other_job in got]

    assert await found(10, None) == [3, 4, 1, 2, 5]
    assert await found(10, None, "lab") == [3, 2, 5]
    assert await found(10, (9, 3), "lab") == [2, 5]
    assert await found(1, (1, 2), "lab") == [5]
    assert await found(10, None, "lab", "other") == []


# ------------------------------------------------------------------------------------------------------------ places


def waiting(number, **changes):
    return job(**{"number": number, "status": Status.RUNNABLE, "millicpus": 500} | changes)


@pytest.fixture
def insert(store):
    async def insert(*jobs):
        await store.commit(Changes(inserted=jobs))
        return jobs

    return insert


async def test_the_jobs_before_a_job_in_its_queue_are_counted_with_their_vcpus(store, insert):
    first, second, third = await insert(waiting(1), waiting(3), waiting(5, millicpus=1000))
    await insert(waiting(2, queue=QueueName("other")), waiting(4, unschedulable=True), job(number=0))

    found = await store.places([waiting_job(job) for job in (third, first, second)])

    assert found == {
        first.id: QueuePosition(ahead=0, millicpus=0),
        second.id: QueuePosition(ahead=1, millicpus=500),
        third.id: QueuePosition(ahead=2, millicpus=1000),
    }


async def test_in_a_share_a_higher_priority_is_before_a_lower_one(store, insert):
    of = {"share_identifier": "blue"}
    low, high, later = await insert(
        waiting(1, scheduling_priority=1, **of),
        waiting(2, scheduling_priority=9, **of),
        waiting(3, scheduling_priority=1, **of),
    )
    await insert(waiting(0, share_identifier="red", scheduling_priority=9))

    found = await store.places([waiting_job(job) for job in (low, high, later)])

    assert [found[other_job.id].ahead for other_job in (high, low, later)] == [0, 1, 2]


async def test_the_number_of_counted_places_is_bounded(store, insert, monkeypatch):
    monkeypatch.setattr(job_reads, "MAX_PLACE", 3)
    jobs = await insert(*(waiting(number) for number in range(6)))

    found = await store.places([waiting_job(other_job) for other_job in jobs])

    assert [found[other_job.id].ahead for other_job in jobs] == [0, 1, 2, 3, 3, 3]
    assert QueuePosition(ahead=MAX_PLACE - 1, millicpus=0).is_exact
    assert not QueuePosition(ahead=MAX_PLACE, millicpus=0).is_exact


async def test_a_call_reads_a_bounded_number_of_rows(store, insert, monkeypatch):
    monkeypatch.setattr(job_reads, "MAX_PLACE_ROWS", 4)
    monkeypatch.setattr(job_reads, "MAX_PLACE", 3)
    jobs = await insert(*(waiting(number, queue=QueueName(f"q{number % 2}")) for number in range(8)))

    found = await store.places([waiting_job(other_job) for other_job in jobs])

    assert len(found) < len(jobs)
