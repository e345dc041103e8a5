"""A real server is killed or frozen during a pull, the archiving of a log, or a grace period. faults.md 6.1."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from tests.faults.job_server import RECORD, job_server, outcomes
from tests.support import processes
from tests.support.registry import registry

pytestmark = pytest.mark.docker

LINES, TRIES = 50_000, 8
EXITED = "Essential container in task exited"
TIMED_OUT = "Job attempt duration exceeded timeout"
IGNORES_SIGTERM = f"trap '{RECORD.format(what='stop')}' TERM; while :; do sleep 1; done"
FROZEN_FOR = 5.0  # seconds: longer than the grace and the timeout


@pytest.fixture(scope="module")
def server(tmp_path_factory, docker_engine):
    with job_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.mark.fault("ST05")
async def test_a_server_killed_during_a_pull_pulls_again_for_the_same_attempt(tmp_path, docker_engine):
    with ExitStack() as stack:
        async with registry(docker_engine) as images:
            server = await asyncio.to_thread(stack.enter_context, job_server(tmp_path))
            images.open.clear()
            job = await asyncio.to_thread(server.submit, "true", image=images.image())
            await asyncio.to_thread(server.until, lambda: images.requests["waiting"] > 0)

            await asyncio.to_thread(server.service.kill)
            await asyncio.to_thread(server.service.start)
            images.open.set()

            done = await asyncio.to_thread(server.wait_for, job, "SUCCEEDED")
            await asyncio.to_thread(server.until, lambda: not server.service.containers())
    assert outcomes(done) == [(0, EXITED)]
    assert set(server.records.counts("start").values()) == {1}


@pytest.mark.fault("ST15")
def test_a_server_killed_while_archiving_a_log_archives_each_line_once(server):
    jobs = until_killed_half_way(server)

    assert [outcomes(server.wait_for(job, "SUCCEEDED")) for job in jobs] == [[(0, EXITED)]] * len(jobs)
    assert list(server.stored_output(jobs[-1])) == [str(number) for number in range(1, LINES + 1)]


def until_killed_half_way(server):
    """The jobs that it took: a busy machine may have kept all of a log before it looks."""
    jobs = []
    for _ in range(TRIES):
        before = server.stored_log_bytes()
        jobs.append(server.submit(f"seq 1 {LINES}"))
        server.wait_for(jobs[-1], "SUCCEEDED")
        server.until(lambda before=before: server.stored_log_bytes() > before)
        server.service.kill()
        half = server.stored_log_bytes()
        server.service.start()
        server.until(lambda: not server.service.containers())
        if half < server.stored_log_bytes():
            return jobs
    raise AssertionError(f"all of {TRIES} logs were kept at once")


@pytest.mark.fault("ST18")
def test_a_server_frozen_beyond_all_deadlines_applies_each_once(server):
    outlasts = server.submit("sleep 100 & wait $!", attempts=2, timeout={"attemptDurationSeconds": 3})
    hanging = server.submit(IGNORES_SIGTERM, attempts=2)
    ends, fails = server.submit("sleep 2 & wait $!"), server.submit("sleep 2 & wait $!; false", attempts=2)
    server.wait_until_started(outlasts, hanging, ends, fails)
    server.batch.terminate_job(jobId=hanging, reason="stop it")
    server.until(lambda: server.records.counts("stop"))
    server.batch.describe_jobs(jobs=[hanging])

    with processes.frozen(server.service.process.pid):
        time.sleep(FROZEN_FOR)
    killed = server.wait_for(hanging, "FAILED")

    assert server.records.counts("stop") == {(hanging, 1): 1}
    assert (killed["statusReason"], outcomes(killed)) == ("stop it", [(137, "stop it")])
    assert outcomes(server.wait_for(outlasts, "FAILED")) == [(143, TIMED_OUT)]
    assert outcomes(server.wait_for(ends, "SUCCEEDED")) == [(0, EXITED)]
    assert outcomes(server.wait_for(fails, "FAILED")) == [(1, EXITED)] * 2
    assert set(server.records.counts("start").values()) == {1}
