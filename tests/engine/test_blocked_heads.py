"""The head of a queue shows that it is blocked, since when, and what it waits for."""

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.engine.mailbox import CatalogChanged, ContinueWork, UpdateTags
from batchq.engine.scheduling import placement_pass
from tests.domain.lives import after, at, cancel, exited, runnable, running, start_failed
from tests.engine.harness import ONE, SURVEYED, answer, catalog_of, event_message, harness_with, request, submit
from tests.support.builders import ADMIN, environment, queue

FOR_VCPUS = status_reasons.no_room("vCPUs of compute environment local")


async def blocked(harness, job):
    """The stored status reason, and since when the job is blocked."""
    stored = (await harness.store.jobs([job.id]))[job.id]
    return stored.status_reason, stored.blocked_at


async def test_each_queue_has_its_own_head():
    runs, one, two = running(millicpus=4000), runnable(), runnable(queue="other")
    harness = await harness_with(runs, one, two, catalog=catalog_of(queue(), queue("other")))

    await harness.process(SURVEYED)

    assert [await blocked(harness, queue) for queue in (one, two)] == [(FOR_VCPUS, at(0))] * 2


async def test_an_unchanged_mark_is_not_written_again():
    runs, head = running(millicpus=4000), runnable()
    harness = await harness_with(runs, head)
    await harness.process(SURVEYED)

    await harness.process(SURVEYED, submit(ONE))

    assert (await harness.store.jobs([head.id]))[head.id].version == 1


async def test_an_unchanged_mark_is_not_written_again_after_a_restart():
    runs, head = running(millicpus=4000), runnable()
    harness = await harness_with(runs, after(head, on.FoundBlocked(reason=FOR_VCPUS)))

    await harness.process(SURVEYED)

    assert (await harness.store.jobs([head.id]))[head.id].version == 0


async def test_a_placed_job_has_no_mark():
    runs, head = running(millicpus=4000), runnable()
    harness = await harness_with(runs, head)
    await harness.process(SURVEYED)

    await harness.process(event_message(runs, exited(0)))

    assert (await blocked(harness, head), await harness.status(head)) == ((None, None), Status.STARTING)


async def test_when_the_head_is_cancelled_the_next_is_marked():
    runs, head, behind = running(millicpus=4000), runnable(), runnable()
    harness = await harness_with(runs, head, behind)
    await harness.process(SURVEYED)

    await harness.process(request(head, cancel()))

    assert await harness.status(head) is Status.FAILED
    assert await blocked(harness, behind) == (FOR_VCPUS, at(0))


async def test_an_older_job_that_is_retried_becomes_the_head():
    again, runs, head = running(attempts=2, millicpus=2000), running(millicpus=2000), runnable(millicpus=4000)
    wants_more = replace(again, spec=replace(again.spec, nodes=head.spec.nodes))
    harness = await harness_with(wants_more, runs, head)
    await harness.process(SURVEYED)

    await harness.process(event_message(wants_more, exited(1)))

    assert await blocked(harness, head) == (None, None)
    assert await blocked(harness, wants_more) == (FOR_VCPUS, at(0))


async def test_a_head_that_started_and_is_retried_is_marked_again(monkeypatch):
    monkeypatch.setattr(placement_pass, "MAX_DECISIONS", 1)
    runs, head = running(millicpus=4000), runnable(millicpus=4000, attempts=2)
    harness = await harness_with(runs, head, catalog=catalog_of(queue(), queue("urgent", priority=9)))
    await harness.process(SURVEYED)
    await harness.process(event_message(runs, exited(0)))
    assert await harness.status(head) is Status.STARTING

    await harness.process(event_message(head, start_failed()), submit(ONE, millicpus=4000, queue="urgent"))
    await harness.process(ContinueWork())

    assert await blocked(harness, head) == (FOR_VCPUS, at(0))


async def test_a_tagged_head_loses_its_mark_when_it_is_no_longer_the_head():
    again, runs, head = running(attempts=2, millicpus=2000), running(millicpus=2000), runnable(millicpus=4000)
    wants_more = replace(again, spec=replace(again.spec, nodes=head.spec.nodes))
    harness = await harness_with(wants_more, runs, head)
    await harness.process(SURVEYED)
    await harness.process(
        UpdateTags(
            job_id=head.id, change=lambda job: replace(job, tags=(("team", "blue"),)), answer=answer(), caller=ADMIN
        )
    )

    await harness.process(event_message(wants_more, exited(1)))

    assert await blocked(harness, head) == (None, None)


async def test_a_unit_of_work_that_is_not_saved_marks_no_job():
    runs, head = running(millicpus=4000), runnable()
    harness = await harness_with(runs, head)
    harness.store.failing = True
    await harness.process(SURVEYED)

    harness.store.failing = False
    await harness.process(SURVEYED)

    assert await blocked(harness, head) == (FOR_VCPUS, at(0))
    await harness.tasks.cancel()


async def test_a_head_that_became_unschedulable_stays_unschedulable():
    runs, head = running(millicpus=1000), runnable(millicpus=4000)
    catalog = catalog_of()
    harness = await harness_with(runs, head, catalog=catalog)
    await harness.process(SURVEYED)
    catalog.environments["local"] = environment(max_millicpus=3000)

    await harness.process(CatalogChanged())

    assert (await harness.store.jobs([head.id]))[head.id].unschedulable
    assert (await blocked(harness, head))[0] == status_reasons.too_many_vcpus(4000, 3000)
