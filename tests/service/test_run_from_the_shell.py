"""`batchq run` against a real server: output, exit status, a server that is killed, and real containers."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.service.waiting import PATIENCE, reaches

IMAGE = "batchq-test:latest"
RETRIED = (
    'BATCHQ_SIMULATED=[{"seconds": 0.1, "exit_code": 3, "output": ["one", "two"]}, '
    '{"seconds": 0.1, "exit_code": 4, "output": ["three"]}]'
)


@pytest.fixture
def run(tmp_path):
    """A function that starts the command, as a process."""
    started = []

    def start(service, *words):
        process = subprocess.Popen(
            [sys.executable, "-m", "batchq", "run", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"BATCHQ_URL": service.url, "XDG_CONFIG_HOME": str(tmp_path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    """The exit status, the lines of the output, and the lines of messages."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out.splitlines(), err.splitlines()


def latest(service):
    """The only job of the server."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for status in ("RUNNING", "RUNNABLE", "FAILED", "SUCCEEDED"):
            found = service.client().list_jobs(jobQueue="default", jobStatus=status)["jobSummaryList"]
            if found:
                return found[0]["jobId"]
        time.sleep(0.05)
    raise AssertionError("no job was submitted")


def test_a_killed_server_is_waited_for(simulated, run):
    process = run(simulated, "busybox", "-e", 'BATCHQ_SIMULATED={"seconds": 3, "output": ["one"]}')
    assert process.stdout.readline() == "one\n"

    simulated.kill()
    simulated.start()

    status, _, printed = ended(process)
    assert any(text.endswith("; waiting for the server") for text in printed)
    assert "batchq: the server responds again" in printed
    assert status in {0, 125}  # simulated containers end with their server


@pytest.mark.docker
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--", "sh", "-c", "echo one; exit 7"], 7),
        (["--", "sh", "-c", "echo one; exit 137"], 137),
        (["--cd", "/tmp", "--", "sh", "-c", '[ "$PWD" = /tmp ] && echo one'], 0),
        (["--time", "1", "--", "sh", "-c", "echo one; sleep 60"], 124),
        (["--retry", "2", "--", "sh", "-c", 'echo one; exit "$AWS_BATCH_JOB_ATTEMPT"'], 2),
    ],
    ids=["exit", "killed", "folder", "time", "retry"],
)
def test_the_exit_status_of_a_container(docker_service, run, words, status):
    ended_with, out, _ = ended(run(docker_service, IMAGE, "--memory", "32m", *words))

    assert (ended_with, set(out)) == (status, {"one"})


@pytest.mark.docker
def test_a_container_that_cannot_start_has_no_exit_code(docker_service, run):
    status, out, _ = ended(run(docker_service, IMAGE, "--memory", "32m", "--", "/no/such/program"))

    assert (status, out) in [(125, []), (127, [])]


@pytest.mark.docker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda item: item.name)
def test_stop_on_exit_terminates_the_container(docker_service, run, number):
    process = run(docker_service, IMAGE, "--memory", "32m", "--stop-on-exit", "--", "sh", "-c", "echo one; sleep 600")
    assert process.stdout.readline() == "one\n"

    process.send_signal(number)

    assert ended(process)[0] == 130
    job = reaches(docker_service.client(), latest(docker_service), "FAILED")
    assert job["isTerminated"]
    assert job["statusReason"] == "stopped from batchq run"


@pytest.mark.docker
def test_a_missing_host_path_fails_the_job_unless_its_creation_is_requested(docker_service, run, tmp_path):
    folder = tmp_path / "typo"
    words = (IMAGE, "--memory", "32m", "-v", f"{folder}:/x")

    status, _, messages = ended(run(docker_service, *words, "--", "true"))

    assert status == 125
    assert f"host path '{folder}' does not exist" in messages[-2]
    assert not folder.exists()
    assert ended(run(docker_service, *words, "--create-host-paths", "--", "touch", "/x/made"))[0] == 0
    assert (folder / "made").exists()
