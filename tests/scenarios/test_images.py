"""Images that are absent: pulled once for all jobs that wait, or the reason of the failed attempt. aws-batch.md 4.2."""

import asyncio
import os

import pytest

from batchq.compute.kubernetes.runtime import KubernetesRuntime
from batchq.domain.enums import Action, Status
from batchq.domain.job import ExitRule
from tests.support.registry import registry
from tests.support.scripts import Script

NOWHERE = "127.0.0.1:1/none:latest"


@pytest.fixture
async def absent(world):
    """An image that a pull gets; None: the engine has no pulls of its own."""
    if world.virtual:
        world.machine.engine.missing_images["127.0.0.1:2/test/one:latest"] = None
        world.machine.engine.missing_images[NOWHERE] = "connection refused"
        yield "127.0.0.1:2/test/one:latest"
        return
    if isinstance(world.machine, KubernetesRuntime):
        yield None
        return
    async with registry(os.environ.get("DOCKER_HOST")) as images:
        yield images.image()
        await world.wait_until_idle()


async def pulls(world, number):
    while world.runtime.pulls < number:  # noqa: ASYNC110 - a pull sets no event
        await asyncio.sleep(0)


async def test_an_absent_image_is_pulled(world, absent):
    job = await world.submit(Script(seconds=0, output=("one",)), image=absent)

    await world.wait_for(job, Status.SUCCEEDED)

    await world.wait_until_containers_are_gone()
    assert await world.output(job) == ["one"]
    assert await world.engine_calls(job) == ["create", "create", "start", "remove"]


async def test_many_jobs_wait_for_the_same_image(world, absent):
    jobs = [await world.submit(image=absent) for _ in range(6)]

    for job in jobs:
        await world.wait_for(job, Status.SUCCEEDED)


@pytest.mark.fault("EN19")
async def test_a_pull_delays_no_job_whose_image_exists(world, absent):
    world.runtime.hold("pull")
    waiting = await world.submit(image=absent)
    await world.wait_for(waiting, Status.STARTING)

    other = await world.submit()

    await world.wait_for(other, Status.SUCCEEDED)
    assert (await world.job(waiting)).status is Status.STARTING
    world.runtime.release("pull")
    await world.wait_for(waiting, Status.SUCCEEDED)


@pytest.mark.fault("SP09")
async def test_a_job_terminated_during_a_pull_ends_at_once_without_a_container(world, absent):
    world.runtime.hold("pull")
    job = await world.submit(image=absent)
    await pulls(world, 1)

    await world.terminate(job, "too slow")

    await world.wait_for(job, Status.FAILED, status_reason="too slow", attempts=())
    world.runtime.release("pull")
    assert await world.engine_calls(job) == ["create", "remove"]  # the image was not there to make it of


@pytest.mark.fault("EN19")
async def test_an_image_that_cannot_be_pulled_is_the_reason_of_the_attempt(world, absent):
    job = await world.submit(image=NOWHERE)

    done = await world.wait_for(job, Status.FAILED)

    (attempt,) = done.attempts
    assert attempt.reason.startswith("CannotPullContainerError: ")
    assert "connection refused" in attempt.reason
    assert (attempt.exit_code, attempt.started_at) == (None, None)


async def test_a_retry_rule_may_exit_on_an_image_that_cannot_be_pulled(world, absent):
    rules = (ExitRule(action=Action.EXIT, on_reason="CannotPullContainerError:*"),)

    job = await world.submit(image=NOWHERE, attempts=3, rules=rules)

    done = await world.wait_for(job, Status.FAILED)
    assert len(done.attempts) == 1
