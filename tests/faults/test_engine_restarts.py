"""The engine stops or crashes, and returns, while jobs run on a real server. faults.md 6.3."""

import signal
import time
from contextlib import contextmanager, suppress
from uuid import uuid4

import pytest

from batchq.clock import SystemClock
from tests.faults.stage import outcomes, staged
from tests.support import processes
from tests.support.second_engine import second_engine

pytestmark = pytest.mark.docker

LOST = "Host EC2 (instance i-00000000000000000) terminated."
EXITED = "Essential container in task exited"
RULES = [{"onStatusReason": "Host EC2*", "action": "RETRY"}, {"onReason": "*", "action": "EXIT"}]
LASTS_AT_FIRST = "[ $AWS_BATCH_JOB_ATTEMPT -gt 1 ] || { sleep 100 & wait $!; }"
ENDS = ["stop", "kill"]
AT_ONCE = 9.0  # seconds, for answers that need no engine: less than any wait for it, on a busy machine too
IN_TIME = 25.0  # seconds, for an end that does not wait until the engine is back
RECORDED_WITHIN = 2.0  # seconds from the exit of a process until its shim has recorded the end


def until_there(name):
    """A command that runs until the test creates a file of this name."""
    return f"until [ -e /truth/{name} ]; do sleep 0.1; done"


@pytest.fixture(scope="module")
def lasting():
    """An engine with live-restore."""
    with second_engine(live_restore=True) as engine:
        yield engine


@pytest.fixture(scope="module")
def stage(tmp_path_factory, engine):
    with staged(tmp_path_factory.mktemp("stage"), engine.url) as stage:
        yield stage


@pytest.fixture(scope="module")
def lasting_stage(tmp_path_factory, lasting):
    with staged(tmp_path_factory.mktemp("stage"), lasting.url) as stage:
        yield stage


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("stop", marks=pytest.mark.fault("EN01")),
        pytest.param("kill", marks=pytest.mark.fault("EN02")),
    ],
)
def test_jobs_lost_with_the_engine_have_its_reason_and_are_retried_once(stage, engine, end):
    load = [stage.submit("true", attempts=3, rules=RULES) for _ in range(6)]
    running = [stage.submit(LASTS_AT_FIRST, attempts=3, rules=RULES) for _ in range(8)]
    stage.begins(*load, *running)

    getattr(engine, end)()
    stage.health_is("degraded")
    began = time.monotonic()
    waiting = stage.submit("true")
    stage.batch.describe_jobs(jobs=[*running, waiting])
    took = time.monotonic() - began
    engine.start()

    assert took < AT_ONCE
    assert [outcomes(stage.then(job, "SUCCEEDED")) for job in running] == [[(143, LOST), (0, EXITED)]] * 8
    assert {outcomes(stage.then(job, "SUCCEEDED"))[-1] for job in load} == {(0, EXITED)}
    assert outcomes(stage.then(waiting, "SUCCEEDED")) == [(0, EXITED)]
    assert set(stage.truth.counts("start").values()) == {1}


@pytest.mark.fault("EN02")
@pytest.mark.parametrize("end", ENDS)
def test_starts_interrupted_by_the_engines_end_are_lost_and_nothing_starts_twice(stage, engine, end):
    jobs = [stage.submit("true", attempts=9, rules=RULES) for _ in range(6)]

    restart_until(stage, engine, end, lambda: stage.are(jobs, "SUCCEEDED"))

    assert {reason for job in jobs for _, reason in outcomes(stage.then(job, "SUCCEEDED"))} <= {LOST, EXITED}
    assert set(stage.truth.counts("start").values()) == {1}


@pytest.mark.fault("EN02")
@pytest.mark.parametrize("live_restore", [False, True])
@pytest.mark.parametrize("ends", [pytest.param(True, id="ended"), pytest.param(False, id="runs on")])
def test_a_start_that_the_engine_did_not_save_is_lost_and_not_repeated(tmp_path, live_restore, ends):
    with slow_engine(tmp_path, live_restore=live_restore) as engine, staged(tmp_path, engine.url) as stage:
        other = stage.submit(until_there("over"))
        stage.begins(other)
        (tmp_path / "hold").touch()
        job = stage.submit("true" if ends else until_there("over"), attempts=2, rules=RULES)
        stage.until(lambda: stage.truth.counts("start")[job, 1] == 1)
        time.sleep(0.5)  # so that it has ended, if it does
        engine.kill()
        (tmp_path / "hold").unlink()
        engine.start()
        stage.truth.leave("over")

        done = stage.then(job, "SUCCEEDED")
        assert set(stage.truth.counts("start").values()) == {1}
        assert [reason for _, reason in outcomes(done)] == [LOST, EXITED]


@pytest.mark.fault("EN22")
def test_a_start_whose_shim_died_is_lost_and_not_repeated(tmp_path):
    with slow_engine(tmp_path) as engine, staged(tmp_path, engine.url) as stage:
        (tmp_path / "hold").touch()
        job = stage.submit("true", attempts=2, rules=RULES)
        stage.until(lambda: stage.truth.counts("start")[job, 1] == 1)
        time.sleep(0.5)
        (container,) = stage.service.containers()
        processes.send(signal.SIGKILL, *processes.shims(container["Id"]))
        (tmp_path / "hold").unlink()

        done = stage.then(job, "SUCCEEDED")
        assert set(stage.truth.counts("start").values()) == {1}
        assert [reason for _, reason in outcomes(done)] == [LOST, EXITED]


@contextmanager
def slow_engine(directory, *, live_restore=False):
    """An engine to which its runtime does not report a start while there is a file `hold`, though the program runs."""
    runtime = directory / "runtime"
    runtime.write_text(
        f"""#!/bin/sh
runc "$@"
code=$?
case " $* " in *" start "*) while [ -e {directory}/hold ]; do sleep 0.05; done ;; esac
exit $code
"""
    )
    runtime.chmod(0o755)
    options = ("--add-runtime", f"slow={runtime}", "--default-runtime", "slow")
    with second_engine(live_restore=live_restore, options=options) as engine:
        yield engine


def restart_until(stage, engine, end, holds):
    """Docker itself may hang in a start that was cut in two; then it must be started once more."""
    for _ in range(3):
        getattr(engine, end)()
        engine.start()
        with suppress(AssertionError):
            stage.until(holds, patience=20)
            return


@pytest.mark.fault("EN03", "EN04")
@pytest.mark.parametrize("end", ENDS)
def test_with_live_restore_jobs_continue_and_keep_their_exit_codes(lasting_stage, lasting, end):
    stage = lasting_stage
    mark = uuid4().hex
    outlives = stage.submit(until_there(f"{mark}-late"), attempts=3)
    ends = stage.submit(f"{until_there(mark)}; (exit 3)")
    stage.begins(outlives, ends)

    getattr(lasting, end)()
    stage.truth.leave(mark)
    stage.until(lambda: not processes.started_with(f"{mark} "))
    time.sleep(RECORDED_WITHIN)
    back = SystemClock().now()
    lasting.start()

    done = stage.then(ends, "FAILED")
    assert outcomes(done) == [(3, EXITED)]
    assert done["stoppedAt"] <= back.timestamp() * 1000
    stage.truth.leave(f"{mark}-late")
    assert outcomes(stage.then(outlives, "SUCCEEDED")) == [(0, EXITED)]
    assert set(stage.truth.counts("start").values()) == {1}


@pytest.mark.fault("EN06", "LC04")
def test_while_the_engine_is_frozen_the_server_answers_and_shuts_down(stage, engine):
    running = stage.submit("sleep 100 & wait $!", attempts=2)
    stage.begins(running)
    engine.freeze()

    began = time.monotonic()
    stage.batch.terminate_job(jobId=running, reason="while it was frozen")
    waiting = stage.submit("true")
    stage.batch.describe_jobs(jobs=[running, waiting])
    took = time.monotonic() - began
    began = time.monotonic()
    status = stage.service.stop()
    ended_after = time.monotonic() - began
    engine.thaw()
    stage.service.start()

    assert took < AT_ONCE
    assert (status, ended_after < IN_TIME) == (0, True)
    done = stage.then(running, "FAILED")
    assert (done["statusReason"], len(done["attempts"])) == ("while it was frozen", 1)
    assert outcomes(stage.then(waiting, "SUCCEEDED")) == [(0, EXITED)]
    assert set(stage.truth.counts("start").values()) == {1}
