"""AWS's jobStateTimeLimitActions: a job that is blocked too long for a reason is cancelled."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.catalog import TimeLimit
from batchq.domain.ids import child_id
from batchq.domain.job import Status
from batchq.engine.mailbox import CatalogChanged, EngineLost, JobEvent, UpdateTags
from batchq.engine.scheduling import time_limits
from tests.domain.lives import after, at, exited, pending, runnable, running
from tests.engine.desk import LOOKED, ONE, answer, desk_over, submit
from tests.engine.turns import ground
from tests.support.builders import ADMIN, environment, queue

CAPACITY = status_reasons.code(status_reasons.no_room("memory"))
TOO_LARGE = status_reasons.code(status_reasons.TOO_LARGE)
TOO_MANY = status_reasons.code(status_reasons.TOO_MANY_VCPUS)
TEN_MINUTES = timedelta(minutes=10)


def limited(*reasons_, most=TEN_MINUTES, environments=None):
    limits_ = tuple(TimeLimit(reason=it, most=most) for it in reasons_ or (CAPACITY,))
    return ground(queue(time_limits=limits_), environments=environments)


def misfit(**asked):
    return after(runnable(millicpus=9000, **asked), on.FoundUnschedulable(reason=status_reasons.TOO_MANY_VCPUS))


class Watched:
    """A desk whose time limits ring it, and which reads its messages."""

    def __init__(self, desk):
        self.desk = desk
        self._tasks = [asyncio.create_task(it()) for it in (desk.loop.scheduler.time_limits.run, self._read)]

    async def _read(self):
        while True:
            await self.desk.process(*await self.desk.inbox.take(100))

    async def stop(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


@pytest.fixture
async def watch():
    """Lets a desk live until the test is over."""
    lives = []

    async def live(desk, seconds):
        lives.append(Watched(desk))
        await asyncio.sleep(seconds)

    yield live
    for it in lives:
        await it.stop()


async def ended(desk, job):
    stored = (await desk.store.jobs([job.id]))[job.id]
    return stored.status_reason if stored.status is Status.FAILED else None


def text(code):
    return f"Canceled by JobStateTimeLimit action due to reason: {code}"


async def test_a_head_that_is_blocked_too_long_is_cancelled(watch):
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head, on_ground=limited())
    await desk.process(LOOKED)

    await watch(desk, 601)

    assert await ended(desk, head) == text(CAPACITY)


async def test_a_blocked_head_is_not_cancelled_before_its_limit(watch):
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head, on_ground=limited())
    await desk.process(LOOKED)

    await watch(desk, 599)

    assert await ended(desk, head) is None


async def test_the_next_head_has_its_own_limit(watch):
    runs, head, behind = running(millicpus=4000), runnable(), runnable()
    desk = await desk_over(runs, head, behind, on_ground=limited())
    await desk.process(LOOKED)

    await watch(desk, 1199)
    assert (await ended(desk, head), await ended(desk, behind)) == (text(CAPACITY), None)

    await asyncio.sleep(2)
    assert await ended(desk, behind) == text(CAPACITY)


async def test_a_job_that_becomes_the_head_later_is_cancelled_at_its_own_time(watch):
    desk = await desk_over(running(millicpus=4000), on_ground=limited())
    await desk.process(LOOKED)
    await desk.process(submit(ONE))
    head = (await desk.store.jobs([ONE]))[ONE]

    await watch(desk, 601)

    assert await ended(desk, head) == text(CAPACITY)


async def test_a_tagged_head_is_cancelled(watch):
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head, on_ground=limited())
    await desk.process(LOOKED)
    await desk.process(
        UpdateTags(
            job_id=head.id, change=lambda it: replace(it, tags=(("team", "blue"),)), answer=answer(), caller=ADMIN
        )
    )

    await watch(desk, 601)

    assert await ended(desk, head) == text(CAPACITY)


@pytest.mark.parametrize("on_ground", [ground(), limited(TOO_LARGE)])
async def test_a_head_without_a_limit_for_its_reason_waits(watch, on_ground):
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head, on_ground=on_ground)
    await desk.process(LOOKED)

    await watch(desk, 10_000)

    assert await ended(desk, head) is None


async def test_the_time_before_a_restart_counts(watch):
    runs = running(millicpus=4000)
    head = after(runnable(), on.FoundBlocked(reason=status_reasons.no_room("memory")), now=at(-300))
    desk = await desk_over(runs, head, on_ground=limited())
    await desk.process(LOOKED)

    await watch(desk, 301)

    assert await ended(desk, head) == text(CAPACITY)


async def test_unschedulable_jobs_are_cancelled_at_any_position(watch):
    huge, runs, head = runnable(millicpus=9000), running(millicpus=4000), runnable()
    desk = await desk_over(huge, runs, head, on_ground=limited(TOO_MANY))
    await desk.process(LOOKED)

    await watch(desk, 601)

    assert (await ended(desk, huge), await ended(desk, head)) == (text(TOO_MANY), None)


async def test_jobs_found_unschedulable_before_a_restart_are_cancelled(watch, monkeypatch):
    monkeypatch.setattr(time_limits, "PAGE", 2)
    jobs = [misfit() for _ in range(5)]
    desk = await desk_over(*jobs, on_ground=limited(TOO_MANY))

    await watch(desk, 601)

    assert [await ended(desk, it) for it in jobs] == [text(TOO_MANY)] * 5


async def test_a_job_found_unschedulable_during_a_scan_is_included(watch, monkeypatch):
    monkeypatch.setattr(time_limits, "PAGE", 2)
    again = running(attempts=2)
    on_ground = limited(TOO_MANY)
    desk = await desk_over(again, *(misfit(queue="unlimited") for _ in range(5)), on_ground=on_ground)
    await desk.process(LOOKED)
    on_ground.environments.update({"local": environment(max_millicpus=500)})
    await desk.process(JobEvent(job_id=again.id, event=exited(1)))

    await watch(desk, 700)

    assert await ended(desk, again) == text(TOO_MANY)


async def test_the_array_of_cancelled_children_fails_with_them(watch):
    desk = await desk_over(on_ground=limited(TOO_MANY))
    await desk.process(LOOKED, submit(ONE, millicpus=9000, array_size=3))

    await watch(desk, 601)

    stored = await desk.store.jobs([ONE, *(child_id(ONE, index) for index in range(3))])
    assert [it.status_reason for it in stored.values()] == [status_reasons.CHILD_FAILED, *[text(TOO_MANY)] * 3]


async def test_a_new_limit_applies_to_jobs_that_already_wait(watch):
    job = misfit()
    on_ground = ground()
    desk = await desk_over(job, on_ground=on_ground)
    await desk.process(LOOKED)
    on_ground.queues.update(limited(TOO_MANY).queues)
    await desk.process(CatalogChanged())

    await watch(desk, 601)

    assert await ended(desk, job) == text(TOO_MANY)


async def test_a_limit_added_while_no_job_is_placed_applies_to_the_head(watch):
    runs, head = running(millicpus=4000), runnable()
    on_ground = ground()
    desk = await desk_over(runs, head, on_ground=on_ground)
    await desk.process(LOOKED)
    await desk.process(EngineLost())
    on_ground.queues.update(limited().queues)
    await desk.process(CatalogChanged())

    await watch(desk, 601)

    assert await ended(desk, head) == text(CAPACITY)


async def test_the_shortest_of_two_limits_for_one_reason_counts(watch):
    runs, head = running(millicpus=4000), runnable()
    limits_ = tuple(TimeLimit(reason=CAPACITY, most=it * TEN_MINUTES) for it in (2, 1))
    desk = await desk_over(runs, head, on_ground=ground(queue(time_limits=limits_)))
    await desk.process(LOOKED)

    await watch(desk, 601)

    assert await ended(desk, head) == text(CAPACITY)


async def test_a_dependent_of_a_cancelled_job_fails(watch):
    runs, head = running(millicpus=4000), runnable()
    desk = await desk_over(runs, head, pending(depends_on=[head], number=9_000_000), on_ground=limited())
    await desk.process(LOOKED)

    await watch(desk, 601)

    (dependent,) = (await desk.store.jobs([pending(number=9_000_000).id])).values()
    assert dependent.status is Status.FAILED


async def test_a_failing_store_delays_the_cancellation(watch):
    jobs = [misfit(), misfit()]
    desk = await desk_over(*jobs, on_ground=limited(TOO_MANY))
    desk.store.failing = True
    await watch(desk, 700)

    desk.store.failing = False
    await asyncio.sleep(30)

    assert [await ended(desk, it) for it in jobs] == [text(TOO_MANY)] * 2
    await desk.tasks.cancel()


async def test_no_unit_of_work_is_requested_when_no_job_is_due(watch):
    desk = await desk_over(runnable(), on_ground=limited(TOO_MANY))
    await watch(desk, 10_000)

    assert desk.loop.scheduler.time_limits.due is None


async def test_a_scan_cancels_no_job_before_its_limit(watch):
    old, young = (
        misfit(),
        after(runnable(millicpus=9000), on.FoundUnschedulable(reason=status_reasons.TOO_MANY_VCPUS), now=at(300)),
    )
    desk = await desk_over(old, young, on_ground=limited(TOO_MANY))

    await watch(desk, 899)

    assert (await ended(desk, old), await ended(desk, young)) == (text(TOO_MANY), None)
