"""The head of a queue shows that it is blocked, since when, and what it waits for."""

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from batchq.engine.mailbox import CatalogChanged, ContinueWork, UpdateTags
from batchq.engine.scheduling import placement_pass
from tests.domain.lives import after, at, cancel, exited, not_started, runnable, running
from tests.engine.desk import LOOKED, ONE, answer, desk_over, news, request, submit
from tests.engine.turns import ground
from tests.support.builders import ADMIN, environment, queue

FOR_VCPUS = status_reasons.no_room("vCPUs of compute environment local")


async def blocked(desk, job):
    """What the store says of it."""
    stored = (await desk.store.jobs([job.id]))[job.id]
    return stored.status_reason, stored.blocked_at


async def test_the_head_shows_why_and_since_when_it_is_blocked():
    runs, head, behind = running(millicpus=4000), runnable(), runnable()
    desk = await desk_over(runs, head, behind)

    await desk.process(LOOKED)

    assert await blocked(desk, head) == (FOR_VCPUS, at(0))
    assert await blocked(desk, behind) == (None, None)


async def test_each_queue_has_its_own_head():
    runs, one, two = running(millicpus=4000), runnable(), runnable(queue="other")
    desk = await desk_over(runs, one, two, on_ground=ground(queue(), queue("other")))

    await desk.process(LOOKED)

    assert [await blocked(desk, it) for it in (one, two)] == [(FOR_VCPUS, at(0))] * 2


async def test_an_unchanged_mark_is_not_written_again():
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head)
    await desk.process(LOOKED)

    await desk.process(LOOKED, submit(ONE))

    assert (await desk.store.jobs([head.id]))[head.id].version == 1


async def test_an_unchanged_mark_is_not_written_again_after_a_restart():
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, after(head, on.FoundBlocked(reason=FOR_VCPUS)))

    await desk.process(LOOKED)

    assert (await desk.store.jobs([head.id]))[head.id].version == 0


async def test_a_changed_explanation_of_the_same_reason_keeps_the_time():
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, after(head, on.FoundBlocked(reason=status_reasons.no_room("memory")), now=at(-60)))

    await desk.process(LOOKED)

    assert await blocked(desk, head) == (FOR_VCPUS, at(-60))


async def test_a_placed_job_has_no_mark():
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head)
    await desk.process(LOOKED)

    await desk.process(news(runs, exited(0)))

    assert (await blocked(desk, head), await desk.status(head)) == ((None, None), Status.STARTING)


async def test_when_the_head_is_cancelled_the_next_is_marked():
    runs, head, behind = running(millicpus=4000), runnable(), runnable()
    desk = await desk_over(runs, head, behind)
    await desk.process(LOOKED)

    await desk.process(request(head, cancel()))

    assert await desk.status(head) is Status.FAILED
    assert await blocked(desk, behind) == (FOR_VCPUS, at(0))


async def test_an_older_job_that_is_retried_becomes_the_head():
    again, runs, head = running(attempts=2, millicpus=2000), running(millicpus=2000), runnable(millicpus=4000)
    wants_more = replace(again, spec=replace(again.spec, container=head.spec.container))
    desk = await desk_over(wants_more, runs, head)
    await desk.process(LOOKED)

    await desk.process(news(wants_more, exited(1)))

    assert await blocked(desk, head) == (None, None)
    assert await blocked(desk, wants_more) == (FOR_VCPUS, at(0))


async def test_a_head_that_started_and_is_retried_is_marked_again(monkeypatch):
    monkeypatch.setattr(placement_pass, "MAX_DECISIONS", 1)
    runs, head = running(millicpus=4000), runnable(millicpus=4000, attempts=2)
    desk = await desk_over(runs, head, on_ground=ground(queue(), queue("urgent", priority=9)))
    await desk.process(LOOKED)
    await desk.process(news(runs, exited(0)))
    assert await desk.status(head) is Status.STARTING

    await desk.process(news(head, not_started()), submit(ONE, millicpus=4000, queue="urgent"))
    await desk.process(ContinueWork())

    assert await blocked(desk, head) == (FOR_VCPUS, at(0))


async def test_a_tagged_head_loses_its_mark_when_it_is_no_longer_the_head():
    again, runs, head = running(attempts=2, millicpus=2000), running(millicpus=2000), runnable(millicpus=4000)
    wants_more = replace(again, spec=replace(again.spec, container=head.spec.container))
    desk = await desk_over(wants_more, runs, head)
    await desk.process(LOOKED)
    await desk.process(
        UpdateTags(
            job_id=head.id, change=lambda it: replace(it, tags=(("team", "blue"),)), answer=answer(), caller=ADMIN
        )
    )

    await desk.process(news(wants_more, exited(1)))

    assert await blocked(desk, head) == (None, None)


async def test_a_unit_of_work_that_is_not_saved_marks_no_job():
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head)
    desk.store.failing = True
    await desk.process(LOOKED)

    desk.store.failing = False
    await desk.process(LOOKED)

    assert await blocked(desk, head) == (FOR_VCPUS, at(0))
    await desk.tasks.cancel()


async def test_the_head_shows_that_its_environment_is_disabled():
    head = runnable()
    desk = await desk_over(head, on_ground=ground(environments=[environment(state="DISABLED")]))

    await desk.process(LOOKED)

    assert (await blocked(desk, head))[0] == status_reasons.NO_ENVIRONMENT


async def test_a_head_that_became_unschedulable_stays_unschedulable():
    runs, head = running(millicpus=1000), runnable(millicpus=4000)
    on_ground = ground()
    desk = await desk_over(runs, head, on_ground=on_ground)
    await desk.process(LOOKED)
    on_ground.environments["local"] = environment(max_millicpus=3000)

    await desk.process(CatalogChanged())

    assert (await desk.store.jobs([head.id]))[head.id].unschedulable
    assert (await blocked(desk, head))[0] == status_reasons.too_many_vcpus(4000, 3000)
