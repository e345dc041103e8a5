"""`batchq cancel` and `batchq terminate` before a real server: each selection of jobs, and their outcomes."""

import subprocess
import sys

import pytest

from batchq.accounts.files import machine_user
from batchq.domain.stop_messages import CONSEQUENCES
from tests.service.job_queue import JobQueue, batchq
from tests.support.service import serving_forked

USER = machine_user()
CANCELLED = f"cancelled ({CONSEQUENCES['CANCELLED']})"
STOPPING = f"1 stopping ({CONSEQUENCES['STOPPING'].format(signal='SIGTERM', grace='the grace period')})"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving_forked(
        tmp_path_factory.mktemp("many") / "data", "--runtime", "simulated", "--stop-grace", "1"
    ) as service:
        yield service


@pytest.fixture(autouse=True)
def here(service, monkeypatch):
    """Commands call this server, and read no configuration file."""
    monkeypatch.setenv("BATCHQ_URL", service.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(service.data))


@pytest.fixture
def queue(service):
    """Room for one job."""
    return JobQueue(service, room=1)


def test_only_the_given_ids_are_cancelled(queue):
    runs, first, second, third = queue.running(), *(queue.submit() for _ in range(3))

    done = batchq("cancel", f"{first},{third}")

    assert (done.status, done.err) == (0, "")
    assert sorted(done.out) == sorted(
        [f"{first}  cancelled  sim (RUNNABLE)", f"{third}  cancelled  sim (RUNNABLE)", f"2 {CANCELLED}"]
    )
    ended = [queue.describe(job_id) for job_id in (first, third)]
    assert [(job["status"], job["isCancelled"], job["statusReason"]) for job in ended] == [
        ("FAILED", True, f"Cancelled by {USER}")
    ] * 2
    assert [queue.status(job_id) for job_id in (runs, second)] == ["RUNNING", "RUNNABLE"]


def test_a_terminated_job_releases_its_resources(queue):
    runs, waits = queue.running(), queue.submit()

    done = batchq("terminate", runs, "--reason", "the room is too hot")

    assert (done.status, done.out) == (0, [f"{runs}  stopping  sim (RUNNING)", STOPPING])
    ended = queue.reach(runs, "FAILED")
    assert (ended["isTerminated"], ended["statusReason"]) == (True, "the room is too hot")
    queue.reach(waits, "RUNNING")


def test_children_selected_by_status_are_reported_separately(queue):
    array = queue.submit("many", array=2500)
    queue.reach(f"{array}:0", "RUNNING")

    done = batchq("cancel", "-n", "many", "-t", "pending", "-q", queue.name)

    assert (done.status, done.out[-1], len(done.out)) == (0, f"2499 {CANCELLED}", 2500)
    assert {text.partition("  ")[0] for text in done.out[:-1]} == {f"{array}:{index}" for index in range(1, 2500)}
    assert queue.status(f"{array}:0") == "RUNNING"


def test_a_bulk_stop_is_completed_after_a_kill_of_the_server(simulated):
    queue = JobQueue(simulated, room=1)
    array = queue.submit(array=5000)
    queue.reach(f"{array}:4999", "RUNNABLE")
    command = [sys.executable, "-u", "-m", "batchq", "cancel", "-t", "pending", "--url", simulated.url]
    command_process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    command_process.stdout.readline()

    simulated.kill()

    out, err = command_process.communicate()
    assert (command_process.returncode, "The server completes the request" in err) in {(3, True), (0, False)}, out[
        -200:
    ]
    simulated.start()
    queue.reach(array, "FAILED")
    assert queue.describe(array)["arrayProperties"]["statusSummary"]["FAILED"] == 5000
