"""The engine stops or crashes, and returns, while jobs run on a real server. faults.md 6.3."""

import signal
import time
from contextlib import contextmanager, suppress
from uuid import uuid4

import pytest

from batchq.system.clock import SystemClock
from tests.faults.job_server import job_server, outcomes
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


def until_file(name):
    """A command that writes numbered lines until the test creates a file of this name, and one line `end` then."""
    return f"n=0; until [ -e /records/{name} ]; do echo $n; n=$((n+1)); sleep 0.1; done; echo end"


@pytest.fixture(scope="module")
def lasting():
    """An engine with live-restore."""
    with second_engine(live_restore=True) as engine:
        yield engine


@pytest.fixture(scope="module")
def server(tmp_path_factory, engine):
    with job_server(tmp_path_factory.mktemp("server"), engine.url) as server:
        yield server


@pytest.fixture(scope="module")
def lasting_server(tmp_path_factory, lasting):
    with job_server(tmp_path_factory.mktemp("server"), lasting.url) as server:
        yield server


@pytest.mark.parametrize(
    "end",
    [pytest.param("stop", marks=pytest.mark.fault("EN01")), pytest.param("kill", marks=pytest.mark.fault("EN02"))],
)
def test_jobs_lost_with_the_engine_have_its_reason_and_are_retried_once(server, engine, end):
    load = [server.submit("true", attempts=3, rules=RULES) for _ in range(6)]
    running = [server.submit(LASTS_AT_FIRST, attempts=3, rules=RULES) for _ in range(8)]
    server.wait_until_started(*load, *running)

    getattr(engine, end)()
    server.wait_for_health("degraded")
    began = time.monotonic()
    waiting = server.submit("true")
    server.batch.describe_jobs(jobs=[*running, waiting])
    took = time.monotonic() - began
    engine.start()

    assert took < AT_ONCE
    assert [outcomes(server.wait_for(job, "SUCCEEDED")) for job in running] == [[(143, LOST), (0, EXITED)]] * 8
    assert {outcomes(server.wait_for(job, "SUCCEEDED"))[-1] for job in load} == {(0, EXITED)}
    assert outcomes(server.wait_for(waiting, "SUCCEEDED")) == [(0, EXITED)]
    assert set(server.records.counts("start").values()) == {1}


@pytest.mark.fault("EN02")
@pytest.mark.parametrize("end", ENDS)
def test_starts_interrupted_by_the_engines_end_are_lost_and_nothing_starts_twice(server, engine, end):
    jobs = [server.submit("true", attempts=9, rules=RULES) for _ in range(6)]

    restart_until(server, engine, end, lambda: server.have_status(jobs, "SUCCEEDED"))

    assert {reason for job in jobs for _, reason in outcomes(server.wait_for(job, "SUCCEEDED"))} <= {LOST, EXITED}
    assert set(server.records.counts("start").values()) == {1}


@pytest.mark.fault("EN02")
@pytest.mark.parametrize("live_restore", [False, True])
@pytest.mark.parametrize("ends", [pytest.param(True, id="ended"), pytest.param(False, id="runs on")])
def test_a_start_that_the_engine_did_not_save_is_lost_and_not_repeated(tmp_path, live_restore, ends):
    with slow_engine(tmp_path, live_restore=live_restore) as engine, job_server(tmp_path, engine.url) as server:
        other = server.submit(until_file("over"))
        server.wait_until_started(other)
        (tmp_path / "hold").touch()
        job = server.submit("true" if ends else until_file("over"), attempts=2, rules=RULES)
        server.until(lambda: server.records.counts("start")[job, 1] == 1)
        time.sleep(0.5)  # so that it has ended, if it does
        engine.kill()
        (tmp_path / "hold").unlink()
        engine.start()
        server.records.create_file("over")

        done = server.wait_for(job, "SUCCEEDED")
        assert set(server.records.counts("start").values()) == {1}
        assert [reason for _, reason in outcomes(done)] == [LOST, EXITED]


@pytest.mark.fault("EN22")
def test_a_start_whose_shim_died_is_lost_and_not_repeated(tmp_path):
    with slow_engine(tmp_path) as engine, job_server(tmp_path, engine.url) as server:
        (tmp_path / "hold").touch()
        job = server.submit("true", attempts=2, rules=RULES)
        server.until(lambda: server.records.counts("start")[job, 1] == 1)
        time.sleep(0.5)
        (container,) = server.service.containers()
        processes.send(signal.SIGKILL, *processes.shims(container["Id"]))
        (tmp_path / "hold").unlink()

        done = server.wait_for(job, "SUCCEEDED")
        assert set(server.records.counts("start").values()) == {1}
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
    options = ("--debug", "--add-runtime", f"slow={runtime}", "--default-runtime", "slow")
    with second_engine(live_restore=live_restore, options=options) as engine:
        yield engine


def restart_until(server, engine, end, holds):
    """Docker itself may hang in a start that was cut in two; then it must be started once more."""
    for _ in range(3):
        getattr(engine, end)()
        engine.start()
        with suppress(AssertionError):
            server.until(holds, patience=20)
            return


@pytest.mark.fault("EN03", "EN04")
@pytest.mark.parametrize("end", ENDS)
def test_with_live_restore_jobs_continue_and_keep_their_exit_codes(lasting_server, lasting, end):
    server = lasting_server
    mark = uuid4().hex
    outlives = server.submit(until_file(f"{mark}-late"), attempts=3)
    ends = server.submit(f"{until_file(mark)}; (exit 3)")
    server.wait_until_started(outlives, ends)

    getattr(lasting, end)()
    server.records.create_file(mark)
    server.until(lambda: not processes.started_with(f"{mark} "))
    time.sleep(RECORDED_WITHIN)
    back = SystemClock().now()
    lasting.start()

    done = server.wait_for(ends, "FAILED")
    assert outcomes(done) == [(3, EXITED)]
    assert done["stoppedAt"] <= back.timestamp() * 1000
    server.records.create_file(f"{mark}-late")
    assert outcomes(server.wait_for(outlives, "SUCCEEDED")) == [(0, EXITED)]
    server.until(lambda: not server.service.containers())
    *numbers, last = server.stored_output(outlives)
    assert ([int(number) for number in numbers], last) == (list(range(len(numbers))), "end")
    assert set(server.records.counts("start").values()) == {1}


@pytest.mark.fault("EN03")
def test_a_container_that_an_engine_with_live_restore_stops_in_its_start_is_lost_with_the_host(tmp_path):
    """Docker does so if no container runs when it ends."""
    with slow_engine(tmp_path, live_restore=True) as engine, job_server(tmp_path, engine.url) as server:
        (tmp_path / "hold").touch()
        job = server.submit(LASTS_AT_FIRST, attempts=2, rules=RULES)
        server.until(lambda: server.records.counts("start")[job, 1] == 1)
        with engine.stopping():
            server.until(lambda: "start clean shutdown of all containers" in engine.log())
            (tmp_path / "hold").unlink()
        engine.start()

        done = server.wait_for(job, "SUCCEEDED")
        assert outcomes(done) == [(143, LOST), (0, EXITED)]
        assert set(server.records.counts("start").values()) == {1}


@pytest.mark.fault("EN06", "LC04")
def test_while_the_engine_is_frozen_the_server_answers_and_shuts_down(server, engine):
    running = server.submit("sleep 100 & wait $!", attempts=2)
    server.wait_until_started(running)
    engine.freeze()

    began = time.monotonic()
    server.batch.terminate_job(jobId=running, reason="while it was frozen")
    waiting = server.submit("true")
    server.batch.describe_jobs(jobs=[running, waiting])
    took = time.monotonic() - began
    began = time.monotonic()
    status = server.service.stop()
    ended_after = time.monotonic() - began
    engine.thaw()
    server.service.start()

    assert took < AT_ONCE
    assert (status, ended_after < IN_TIME) == (0, True)
    done = server.wait_for(running, "FAILED")
    assert (done["statusReason"], len(done["attempts"])) == ("while it was frozen", 1)
    assert outcomes(server.wait_for(waiting, "SUCCEEDED")) == [(0, EXITED)]
    assert set(server.records.counts("start").values()) == {1}
