"""A real server is killed or frozen during a pull, the archiving of a log, or a grace period. faults.md 6.1."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from tests.faults.stage import outcomes, staged
from tests.faults.truth import RECORD
from tests.support import processes
from tests.support.registry import registry

pytestmark = pytest.mark.docker

LINES, TRIES = 50_000, 8
EXITED = "Essential container in task exited"
TIMED_OUT = "Job attempt duration exceeded timeout"
IGNORES_SIGTERM = f"trap '{RECORD.format(what='stop')}' TERM; while :; do sleep 1; done"
FROZEN_FOR = 5.0  # seconds: longer than the grace and the timeout


@pytest.fixture(scope="module")
def stage(tmp_path_factory, docker_engine):
    with staged(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.mark.fault("ST05")
async def test_a_server_killed_during_a_pull_pulls_again_for_the_same_attempt(tmp_path, docker_engine):
    with ExitStack() as stack:
        async with registry(docker_engine) as images:
            stage = await asyncio.to_thread(stack.enter_context, staged(tmp_path))
            images.open.clear()
            job = await asyncio.to_thread(stage.submit, "true", image=images.image())
            await asyncio.to_thread(stage.until, lambda: images.requests["waiting"] > 0)

            await asyncio.to_thread(stage.service.kill)
            await asyncio.to_thread(stage.service.start)
            images.open.set()

            done = await asyncio.to_thread(stage.then, job, "SUCCEEDED")
            await asyncio.to_thread(stage.until, lambda: not stage.service.containers())
    assert outcomes(done) == [(0, EXITED)]
    assert set(stage.truth.counts("start").values()) == {1}


@pytest.mark.fault("ST15")
def test_a_server_killed_while_archiving_a_log_archives_each_line_once(stage):
    jobs = until_killed_half_way(stage)

    assert [outcomes(stage.then(job, "SUCCEEDED")) for job in jobs] == [[(0, EXITED)]] * len(jobs)
    assert list(stage.output(jobs[-1])) == [str(number) for number in range(1, LINES + 1)]


def until_killed_half_way(stage):
    """The jobs that it took: a busy machine may have kept all of a log before it looks."""
    jobs = []
    for _ in range(TRIES):
        before = stage.kept()
        jobs.append(stage.submit(f"seq 1 {LINES}"))
        stage.then(jobs[-1], "SUCCEEDED")
        stage.until(lambda before=before: stage.kept() > before)
        stage.service.kill()
        half = stage.kept()
        stage.service.start()
        stage.until(lambda: not stage.service.containers())
        if half < stage.kept():
            return jobs
    raise AssertionError(f"all of {TRIES} logs were kept at once")


@pytest.mark.fault("ST18")
def test_a_server_frozen_beyond_all_deadlines_applies_each_once(stage):
    outlasts = stage.submit("sleep 100 & wait $!", attempts=2, timeout={"attemptDurationSeconds": 3})
    hanging = stage.submit(IGNORES_SIGTERM, attempts=2)
    ends, fails = stage.submit("sleep 2 & wait $!"), stage.submit("sleep 2 & wait $!; false", attempts=2)
    stage.begins(outlasts, hanging, ends, fails)
    stage.batch.terminate_job(jobId=hanging, reason="stop it")
    stage.until(lambda: stage.truth.counts("stop"))
    stage.batch.describe_jobs(jobs=[hanging])

    with processes.frozen(stage.service.process.pid):
        time.sleep(FROZEN_FOR)
    killed = stage.then(hanging, "FAILED")

    assert stage.truth.counts("stop") == {(hanging, 1): 1}
    assert (killed["statusReason"], outcomes(killed)) == ("stop it", [(137, "stop it")])
    assert outcomes(stage.then(outlasts, "FAILED")) == [(143, TIMED_OUT)]
    assert outcomes(stage.then(ends, "SUCCEEDED")) == [(0, EXITED)]
    assert outcomes(stage.then(fails, "FAILED")) == [(1, EXITED)] * 2
    assert set(stage.truth.counts("start").values()) == {1}
