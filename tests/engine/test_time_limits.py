"""AWS's jobStateTimeLimitActions: a job that is blocked too long for a reason is cancelled."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.catalog import TimeLimit
from batchq.domain.enums import Status
from batchq.domain.machines import one_machine
from batchq.engine.mailbox import CatalogChanged, ContinueWork, JobEvent, RuntimeLost, UpdateTags
from batchq.engine.scheduling import blocked
from tests.domain.lives import after, at, exited, runnable, running
from tests.engine.harness import HOST, ONE, SURVEYED, answer, catalog_of, harness_with, submit
from tests.support.builders import ADMIN, environment, queue

CAPACITY = status_reasons.code(status_reasons.no_room("memory"))
TOO_LARGE = status_reasons.code(status_reasons.TOO_LARGE)
TOO_MANY = status_reasons.code(status_reasons.TOO_MANY_VCPUS)
TEN_MINUTES = timedelta(minutes=10)
TWO_LIMITS = tuple(TimeLimit(reason=CAPACITY, most=number * TEN_MINUTES) for number in (2, 1))


def limited(*reasons_, most=TEN_MINUTES, environments=None):
    limits_ = tuple(TimeLimit(reason=reason, most=most) for reason in reasons_ or (CAPACITY,))
    return catalog_of(queue(time_limits=limits_), environments=environments)


def misfit(**fields):
    return after(runnable(millicpus=9000, **fields), on.FoundUnschedulable(reason=status_reasons.TOO_MANY_VCPUS))


class RunningHarness:
    """A harness whose time limits run, and which processes its messages."""

    def __init__(self, harness):
        self.harness = harness
        self._tasks = [asyncio.create_task(loop()) for loop in (harness.loop.scheduler.time_limits.run, self._read)]

    async def _read(self):
        while True:
            await self.harness.process(*await self.harness.mailbox.take(100))

    async def stop(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


@pytest.fixture
async def watch():
    """Runs a harness until the test is over."""
    running = []

    async def watch(harness, seconds):
        running.append(RunningHarness(harness))
        await asyncio.sleep(seconds)

    yield watch
    for job in running:
        await job.stop()


async def ended(harness, job):
    stored = (await harness.store.jobs([job.id]))[job.id]
    return stored.status_reason if stored.status is Status.FAILED else None


def text(code):
    return f"Canceled by JobStateTimeLimit action due to reason: {code}"


async def test_the_next_head_has_its_own_limit(watch):
    runs, head, behind = running(millicpus=4000), runnable(), runnable()
    harness = await harness_with(runs, head, behind, catalog=limited())
    await harness.process(SURVEYED)

    await watch(harness, 1199)
    assert (await ended(harness, head), await ended(harness, behind)) == (text(CAPACITY), None)

    await asyncio.sleep(2)
    assert await ended(harness, behind) == text(CAPACITY)


async def test_a_job_that_becomes_the_head_later_is_cancelled_at_its_own_time(watch):
    harness = await harness_with(running(millicpus=4000), catalog=limited())
    await harness.process(SURVEYED)
    await harness.process(submit(ONE))
    head = (await harness.store.jobs([ONE]))[ONE]

    await watch(harness, 601)

    assert await ended(harness, head) == text(CAPACITY)


async def test_a_tagged_head_is_cancelled(watch):
    runs, head = running(millicpus=4000), runnable()
    harness = await harness_with(runs, head, catalog=limited())
    await harness.process(SURVEYED)
    await harness.process(
        UpdateTags(
            job_id=head.id, change=lambda job: replace(job, tags=(("team", "blue"),)), answer=answer(), caller=ADMIN
        )
    )

    await watch(harness, 601)

    assert await ended(harness, head) == text(CAPACITY)


@pytest.mark.parametrize(
    ("catalog", "seconds", "reason"),
    [
        (limited(), 599, None),
        (limited(), 601, CAPACITY),
        (limited(CAPACITY, most=2 * TEN_MINUTES), 601, None),
        (catalog_of(queue(time_limits=TWO_LIMITS)), 601, CAPACITY),
        (catalog_of(), 10_000, None),
        (limited(TOO_LARGE), 10_000, None),
    ],
    ids=["not over", "over", "a longer limit", "the shorter of two", "no limit", "a limit for another reason"],
)
async def test_a_head_that_is_blocked_too_long_is_cancelled(watch, catalog, seconds, reason):
    runs, head = running(millicpus=4000), runnable()
    harness = await harness_with(runs, head, catalog=catalog)
    await harness.process(SURVEYED)

    await watch(harness, seconds)

    assert await ended(harness, head) == (None if reason is None else text(reason))


async def test_the_time_before_a_restart_counts(watch):
    runs = running(millicpus=4000)
    head = after(runnable(), on.FoundBlocked(reason=status_reasons.no_room("memory")), now=at(-300))
    harness = await harness_with(runs, head, catalog=limited())
    await harness.process(SURVEYED)

    await watch(harness, 301)

    assert await ended(harness, head) == text(CAPACITY)


async def test_unschedulable_jobs_are_cancelled_at_any_position(watch):
    huge, runs, head = runnable(millicpus=9000), running(millicpus=4000), runnable()
    harness = await harness_with(huge, runs, head, catalog=limited(TOO_MANY))
    await harness.process(SURVEYED)

    await watch(harness, 601)

    assert (await ended(harness, huge), await ended(harness, head)) == (text(TOO_MANY), None)


async def test_jobs_found_unschedulable_before_a_restart_are_cancelled(watch, monkeypatch):
    monkeypatch.setattr(blocked, "SCAN_PAGE", 2)
    jobs = [misfit() for _ in range(5)]
    harness = await harness_with(*jobs, catalog=limited(TOO_MANY))
    await harness.process(SURVEYED)

    await watch(harness, 601)

    assert [await ended(harness, job) for job in jobs] == [text(TOO_MANY)] * 5


@pytest.mark.parametrize(("millicpus", "status"), [(4000, Status.FAILED), (9000, Status.STARTING)])
async def test_an_overdue_job_that_fits_after_a_restart_is_started_instead_of_cancelled(watch, millicpus, status):
    job = after(runnable(millicpus=9000), on.FoundUnschedulable(reason=status_reasons.TOO_MANY_VCPUS), now=at(-3600))
    larger = [environment(max_millicpus=millicpus)]
    harness = await harness_with(job, catalog=limited(TOO_MANY, environments=larger))

    await harness.process(ContinueWork())
    await harness.process(replace(SURVEYED, machines=one_machine(replace(HOST, millicpus=9000))))
    await watch(harness, 30)

    assert (await harness.store.jobs([job.id]))[job.id].status is status


async def test_a_job_found_unschedulable_during_a_scan_is_included(watch, monkeypatch):
    monkeypatch.setattr(blocked, "SCAN_PAGE", 2)
    again = running(attempts=2)
    catalog = limited(TOO_MANY)
    harness = await harness_with(again, *(misfit(queue="unlimited") for _ in range(5)), catalog=catalog)
    await harness.process(SURVEYED)
    catalog.environments.update({"local": environment(max_millicpus=500)})
    await harness.process(JobEvent(job_id=again.id, event=exited(1)))

    await watch(harness, 700)

    assert await ended(harness, again) == text(TOO_MANY)


async def test_a_new_limit_applies_to_jobs_that_already_wait(watch):
    job = misfit()
    catalog = catalog_of()
    harness = await harness_with(job, catalog=catalog)
    await harness.process(SURVEYED)
    catalog.queues.update(limited(TOO_MANY).queues)
    await harness.process(CatalogChanged())

    await watch(harness, 601)

    assert await ended(harness, job) == text(TOO_MANY)


async def test_a_limit_added_while_no_job_is_placed_applies_to_the_head(watch):
    runs, head = running(millicpus=4000), runnable()
    catalog = catalog_of()
    harness = await harness_with(runs, head, catalog=catalog)
    await harness.process(SURVEYED)
    await harness.process(RuntimeLost())
    catalog.queues.update(limited().queues)
    await harness.process(CatalogChanged())

    await watch(harness, 601)

    assert await ended(harness, head) == text(CAPACITY)


async def test_a_failing_store_delays_the_cancellation(watch):
    jobs = [misfit(), misfit()]
    harness = await harness_with(*jobs, catalog=limited(TOO_MANY))
    await harness.process(SURVEYED)
    harness.store.failing = True
    await watch(harness, 700)

    harness.store.failing = False
    await asyncio.sleep(30)

    assert [await ended(harness, job) for job in jobs] == [text(TOO_MANY)] * 2
    await harness.tasks.cancel()


async def test_no_unit_of_work_is_requested_when_no_job_is_due(watch):
    harness = await harness_with(runnable(), catalog=limited(TOO_MANY))
    await harness.process(SURVEYED)
    await watch(harness, 10_000)

    assert harness.loop.scheduler.time_limits.due is None


async def test_a_scan_cancels_no_job_before_its_limit(watch):
    old, young = (
        misfit(),
        after(runnable(millicpus=9000), on.FoundUnschedulable(reason=status_reasons.TOO_MANY_VCPUS), now=at(300)),
    )
    harness = await harness_with(old, young, catalog=limited(TOO_MANY))
    await harness.process(SURVEYED)

    await watch(harness, 899)

    assert (await ended(harness, old), await ended(harness, young)) == (text(TOO_MANY), None)
