"""When the circuit breaker of starts opens, which starts it allows, and when it closes."""

import pytest

from batchq.domain.ids import JobId
from batchq.engine.containers.start_breaker import MAX_PAUSE, MIN_JOBS, StartBreaker
from batchq.engine.supervisor import Supervisor
from tests.support.clock import (
    VirtualClock,
    pytest_asyncio_loop_factories,  # noqa: F401 - a hook
)

CLOCK = VirtualClock()


@pytest.fixture
async def breaker():
    tasks = Supervisor(CLOCK)
    yield StartBreaker(clock=CLOCK, tasks=tasks)
    await tasks.cancel()


def fail(breaker, jobs, *images):
    for number in range(jobs):
        breaker.host_failed(JobId(f"job-{number}"), images[number % len(images)], "no cgroups")


def test_one_image_that_never_started_is_reported_and_does_not_open_the_breaker(breaker):
    fail(breaker, 50, "bad")

    assert not breaker.is_open
    assert breaker.error == "containers cannot be started: no cgroups"


def test_one_job_that_fails_repeatedly_does_not_open_the_breaker(breaker):
    breaker.succeeded("good")
    for _ in range(50):
        fail(breaker, 1, "good")

    assert (breaker.is_open, breaker.error) == (False, None)


@pytest.mark.parametrize("images", [("good",), ("one", "other")])
async def test_failures_of_several_jobs_of_a_proven_image_or_of_two_images_open_the_breaker(breaker, images):
    breaker.succeeded("good")
    fail(breaker, MIN_JOBS, *images)

    assert breaker.is_open


def test_a_success_between_failures_keeps_the_breaker_closed(breaker):
    for _ in range(20):
        fail(breaker, MIN_JOBS - 1, "one", "other")
        breaker.succeeded("good")

    assert not breaker.is_open


async def test_an_open_breaker_allows_single_starts_after_growing_pauses_until_one_succeeds(breaker):
    fail(breaker, MIN_JOBS, "one", "other")
    turns = [breaker.permit() for _ in range(9)]

    waited = []
    for unit in turns[:7]:
        before = CLOCK.now()
        await unit
        waited.append((CLOCK.now() - before).total_seconds())
        breaker.host_failed(JobId("job"), "one", "no cgroups")
    assert waited == [1, 1, 2, 4, 8, 16, MAX_PAUSE]
    assert [it.done() for it in turns[7:]] == [False, False]

    breaker.succeeded("one")

    assert [it.done() for it in turns[7:]] == [True, True]
    assert breaker.permit() is None


async def test_an_abandoned_or_refused_start_does_not_use_the_trial_start(breaker):
    fail(breaker, MIN_JOBS, "one", "other")
    given_up, bad, good = [breaker.permit() for _ in range(3)]
    given_up.cancel()
    before = CLOCK.now()

    await bad
    breaker.job_failed()
    await good

    assert (CLOCK.now() - before).total_seconds() == 1


async def test_abandoned_starts_are_forgotten_at_once(breaker):
    fail(breaker, MIN_JOBS, "one", "two")
    last, *others = [breaker.permit() for _ in range(100)]

    for unit in others:
        unit.cancel()
    await CLOCK.sleep(0)

    assert list(breaker._waiting) == [last]
