"""`batchq cancel` and `batchq terminate` before a real server: each selection of jobs, and their outcomes."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from batchq.accounts.files import machine_user
from batchq.compute.simulated.script import Script
from batchq.domain.stop_words import CONSEQUENCES
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


@pytest.fixture
def wide(service):
    return JobQueue(service, room=8)


@pytest.fixture(scope="module")
def scene(service):
    """Two queues that no test changes; in each a job runs and others wait."""
    day, night = JobQueue(service, room=1), JobQueue(service, room=1)
    names = {
        day.running("Simulate"): "day runs",
        day.submit("simulate"): "day waits",
        day.submit("train"): "day trains",
        night.running("train"): "night runs",
        night.submit("simulator"): "night waits",
    }
    return SimpleNamespace(day=day.name, night=night.name, names=names)


def test_only_the_given_ids_are_cancelled(queue):
    runs, first, second, third = queue.running(), *(queue.submit() for _ in range(3))

    done = batchq("cancel", f"{first},{third}")

    assert (done.status, done.err) == (0, "")
    assert sorted(done.out) == sorted(
        [
            f"{first}  cancelled  sim (RUNNABLE)",
            f"{third}  cancelled  sim (RUNNABLE)",
            f"2 {CANCELLED}",
        ]
    )
    ended = [queue.describe(it) for it in (first, third)]
    assert [(it["status"], it["isCancelled"], it["statusReason"]) for it in ended] == [
        ("FAILED", True, f"Cancelled by {USER}")
    ] * 2
    assert [queue.status(it) for it in (runs, second)] == ["RUNNING", "RUNNABLE"]


def test_a_terminated_job_releases_its_resources(queue):
    runs, waits = queue.running(), queue.submit()

    done = batchq("terminate", runs, "--reason", "the room is too hot")

    assert (done.status, done.out) == (0, [f"{runs}  stopping  sim (RUNNING)", STOPPING])
    ended = queue.reach(runs, "FAILED")
    assert (ended["isTerminated"], ended["statusReason"]) == (True, "the room is too hot")
    queue.reach(waits, "RUNNING")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["-n", "simulate"], {"day runs", "day waits"}),
        (["-n", "SIMULAT*"], {"day runs", "day waits", "night waits"}),
        (["-n", "simulate,train"], {"day runs", "day waits", "day trains", "night runs"}),
        (["-n", "train", "-p", "{night}"], {"night runs"}),
        (["-p", "{day}"], {"day runs", "day waits", "day trains"}),
        (["-p", "{day}", "-t", "PD"], {"day waits", "day trains"}),
        (["-t", "running", "-p", "{day},{night}"], {"day runs", "night runs"}),
        (["-t", "pending,running", "-p", "{night}"], {"night runs", "night waits"}),
        (["-w", "{day}"], {"day runs"}),
        (["-w", "{day},{night}", "-n", "train"], {"night runs"}),
        (["-u", USER, "-p", "{night}"], {"night runs", "night waits"}),
        (["--me", "-p", "{night}"], {"night runs", "night waits"}),
        (["-A", "root", "-p", "{night}"], {"night runs", "night waits"}),
        (["-t", "all", "-n", "train", "-u", USER, "-p", "{day}"], {"day trains"}),
    ],
)
@pytest.mark.parametrize("command", ["cancel", "terminate"])
def test_all_filters_must_match(scene, command, words, meant):
    words = [it.format(day=scene.day, night=scene.night) for it in words]

    done = batchq(command, *words, "--dry-run", "--json")

    response = json.loads("\n".join(done.out))
    assert (done.status, response["dryRun"]) == (0, True)
    assert {scene.names[it["jobId"]] for it in response["jobs"]} == meant


def test_a_second_terminate_names_the_time_and_the_author_of_the_first(queue):
    hanging = queue.running(script=Script(seconds=None))
    batchq("terminate", hanging, "--grace", "60")

    again, summary = batchq("terminate", hanging).out

    order = rf"already stopping since [0-9:]+, by {USER} \('Terminated by {USER}'\)"
    assert re.fullmatch(rf"{hanging}  stopping  sim \(RUNNING\): {order}", again)
    assert summary == "1 already stopping"


def test_a_cancel_of_an_array_reports_the_effect_on_its_children(queue):
    array = queue.submit(array=3)
    queue.reach(f"{array}:0", "RUNNING")

    (line, _) = batchq("cancel", array).out

    assert line == f"{array}  stopping  sim (PENDING): of its children 2 cancelled, 1 running on, not retried"


@pytest.mark.parametrize("step", [".{}", ":{}", "_{}"], ids=["dot", "colon", "slurm"])
def test_children_are_stopped_and_their_siblings_continue(service, step):
    queue = JobQueue(service, room=3)
    array = queue.submit(array=3)
    children = [f"{array}:{index}" for index in range(3)]
    for it in children:
        queue.reach(it, "RUNNING")
    waits = queue.submit("next")

    done = batchq("terminate", ",".join(array + step.format(index) for index in (0, 2)))

    assert done.status == 0
    assert sorted(done.out[:2]) == [f"{array}:{index}  stopping  sim (RUNNING)" for index in (0, 2)]
    assert [queue.reach(children[index], "FAILED")["isTerminated"] for index in (0, 2)] == [True, True]
    queue.reach(waits, "RUNNING")
    assert (queue.status(children[1]), queue.status(array)) == ("RUNNING", "PENDING")
    batchq("terminate", children[1])
    assert queue.reach(array, "FAILED")["statusReason"] == "Array Child Job failed"


@pytest.mark.parametrize("step", [".{}", "#{}"], ids=["dot", "node"])
def test_a_node_is_stopped_and_the_job_continues(wide, step):
    gang = wide.running(nodes=3)

    done = batchq("terminate", gang + step.format(1))

    assert (done.status, done.out) == (0, [f"{gang}#1  stopping  sim (RUNNING)", STOPPING])
    wide.node_ends(f"{gang}#1")
    assert wide.status(gang) == "RUNNING"
    batchq("terminate", gang)
    assert wide.reach(gang, "FAILED")["isTerminated"]


def test_children_selected_by_status_are_reported_separately(queue):
    array = queue.submit("many", array=2500)
    queue.reach(f"{array}:0", "RUNNING")

    done = batchq("cancel", "-n", "many", "-t", "pending", "-p", queue.name)

    assert (done.status, done.out[-1], len(done.out)) == (0, f"2499 {CANCELLED}", 2500)
    assert {it.partition("  ")[0] for it in done.out[:-1]} == {f"{array}:{index}" for index in range(1, 2500)}
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
