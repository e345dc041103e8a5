"""A real server is killed or frozen in moments that take long: a pull, the keeping of a log, a grace. faults.md 6.1."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from tests.faults.stage import staged, told
from tests.support import processes
from tests.support.registry import registry

pytestmark = [pytest.mark.docker, pytest.mark.slow]

LINES = 50_000
EXITED = "Essential container in task exited"
TIMED_OUT = "Job attempt duration exceeded timeout"
DEAF = "trap 'touch /truth/asked' TERM; while :; do sleep 1; done"
FROZEN_FOR = 5.0  # seconds: longer than the grace and the timeout


@pytest.fixture(scope="module")
def stage(tmp_path_factory, docker_engine):
    with staged(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.mark.fault("ST05")
async def test_killed_while_it_pulls_it_pulls_again_and_the_attempt_is_the_same(tmp_path, docker_engine):
    with ExitStack() as stack:
        async with registry(docker_engine) as images:
            stage = await asyncio.to_thread(stack.enter_context, staged(tmp_path))
            images.open.clear()
            job = await asyncio.to_thread(stage.submit, "true", image=images.image())
            await asyncio.to_thread(stage.until, lambda: images.asked["waits"] > 0)

            await asyncio.to_thread(stage.service.kill)
            await asyncio.to_thread(stage.service.start)
            images.open.set()

            done = await asyncio.to_thread(stage.then, job, "SUCCEEDED")
            await asyncio.to_thread(stage.until, lambda: not stage.service.containers())
    assert told(done) == [(0, EXITED)]
    assert set(stage.truth.said("start").values()) == {1}


@pytest.mark.fault("ST15")
def test_killed_while_it_keeps_a_log_it_keeps_the_rest_and_no_line_twice(stage):
    job = stage.submit(f"seq 1 {LINES}")
    before = stage.kept()
    stage.then(job, "SUCCEEDED")
    stage.until(lambda: stage.kept() > before)

    stage.service.kill()
    half = stage.kept()
    stage.service.start()
    stage.until(lambda: not stage.service.containers())

    assert half < stage.kept()
    assert told(stage.then(job, "SUCCEEDED")) == [(0, EXITED)]
    assert list(stage.output(job)) == [str(number) for number in range(1, LINES + 1)]


@pytest.mark.fault("ST18")
def test_frozen_beyond_every_deadline_it_does_what_is_due_once_when_it_goes_on(stage):
    outlasts = stage.submit("sleep 100 & wait $!", attempts=2, timeout={"attemptDurationSeconds": 3})
    deaf = stage.submit(DEAF, attempts=2)
    ends, fails = stage.submit("sleep 2 & wait $!"), stage.submit("sleep 2 & wait $!; false", attempts=2)
    stage.begins(outlasts, deaf, ends, fails)
    stage.batch.terminate_job(jobId=deaf, reason="stop it")
    stage.until(lambda: stage.truth.has("asked"))
    stage.batch.describe_jobs(jobs=[deaf])

    with processes.frozen(stage.service.process.pid):
        time.sleep(FROZEN_FOR)
    began = time.monotonic()
    killed = stage.then(deaf, "FAILED")
    took = time.monotonic() - began

    assert took < 2
    assert (killed["statusReason"], told(killed)) == ("stop it", [(137, "stop it")])
    assert told(stage.then(outlasts, "FAILED")) == [(143, TIMED_OUT)]
    assert told(stage.then(ends, "SUCCEEDED")) == [(0, EXITED)]
    assert told(stage.then(fails, "FAILED")) == [(1, EXITED)] * 2
    assert set(stage.truth.said("start").values()) == {1}
