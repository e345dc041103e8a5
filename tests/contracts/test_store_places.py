"""The contract of every store: places in line."""

import pytest

from batchq.domain.explanation.facts import MAX_PLACE, Place
from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from batchq.ports.jobs import Changes
from batchq.ports.queue import WaitingJob
from batchq.store import job_reads
from tests.support.builders import job


def waiting(number, **changes):
    return job(**{"number": number, "status": Status.RUNNABLE, "millicpus": 500} | changes)


def place_query(it):
    return WaitingJob(
        job_id=it.id,
        queue=it.spec.queue,
        order=it.order,
        share=it.spec.share_identifier,
        priority=it.spec.scheduling_priority or 0,
    )


@pytest.fixture
def insert(store):
    async def insert(*jobs):
        await store.commit(Changes(inserted=jobs))
        return jobs

    return insert


async def test_the_jobs_before_a_job_in_its_queue_are_counted_with_their_vcpus(store, insert):
    first, second, third = await insert(waiting(1), waiting(3), waiting(5, millicpus=1000))
    await insert(waiting(2, queue=QueueName("other")), waiting(4, unschedulable=True), job(number=0))

    found = await store.places([place_query(it) for it in (third, first, second)])

    assert found == {
        first.id: Place(ahead=0, millicpus=0),
        second.id: Place(ahead=1, millicpus=500),
        third.id: Place(ahead=2, millicpus=1000),
    }


async def test_in_a_share_a_higher_priority_is_before_a_lower_one(store, insert):
    of = {"share_identifier": "blue"}
    low, high, later = await insert(
        waiting(1, scheduling_priority=1, **of),
        waiting(2, scheduling_priority=9, **of),
        waiting(3, scheduling_priority=1, **of),
    )
    await insert(waiting(0, share_identifier="red", scheduling_priority=9))

    found = await store.places([place_query(it) for it in (low, high, later)])

    assert [found[it.id].ahead for it in (high, low, later)] == [0, 1, 2]


async def test_the_number_of_counted_places_is_bounded(store, insert, monkeypatch):
    monkeypatch.setattr(job_reads, "MAX_PLACE", 3)
    jobs = await insert(*(waiting(number) for number in range(6)))

    found = await store.places([place_query(it) for it in jobs])

    assert [found[it.id].ahead for it in jobs] == [0, 1, 2, 3, 3, 3]
    assert Place(ahead=MAX_PLACE - 1, millicpus=0).is_exact
    assert not Place(ahead=MAX_PLACE, millicpus=0).is_exact


async def test_a_call_reads_a_bounded_number_of_rows(store, insert, monkeypatch):
    monkeypatch.setattr(job_reads, "MAX_PLACE_ROWS", 4)
    monkeypatch.setattr(job_reads, "MAX_PLACE", 3)
    jobs = await insert(*(waiting(number, queue=QueueName(f"q{number % 2}")) for number in range(8)))

    found = await store.places([place_query(it) for it in jobs])

    assert len(found) < len(jobs)
