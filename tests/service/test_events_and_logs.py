"""Events and logs over HTTP: by long polls, from a real server."""

import threading
import time

import pytest

from batchq.compute.simulated.script import Script
from tests.service.job_queue import submit_script
from tests.service.waiting import reaches
from tests.support.service import PATIENCE

SHORT = Script(seconds=0.3, output=("one line", "another line"))


def get(service, path):
    status, answer = service.native(path)
    assert status == 200, answer
    return answer


def test_an_event_names_the_job_and_its_status(shared):
    job = submit_script(shared, SHORT, "Named")
    reaches(shared.client(), job, "SUCCEEDED")

    first, *_, last = get(shared, f"events?after=0&jobs={job}")["events"]
    only = get(shared, f"events?after=0&jobs={job}&jobStatuses=running,starting&jobQueues=default")["events"]

    assert (first["jobName"], first["jobQueue"], first["status"]) == ("Named", "default", "SUBMITTED")
    assert "attempt" not in first
    assert last["statusReason"] == "Essential container in task exited"
    assert [(job["status"], job["attempt"]) for job in only] == [("STARTING", 1), ("RUNNING", 1)]


def test_a_reader_without_a_number_begins_now_and_is_answered_soon(shared):
    now = get(shared, "events")
    job = submit_script(shared, SHORT)
    began = time.monotonic()

    page = get(shared, f"events?after={now['next']}&wait=20&jobs={job}&jobStatuses=SUCCEEDED")

    assert now["events"] == []
    while not page["events"]:
        page = get(shared, f"events?after={page['next']}&wait=20&jobs={job}&jobStatuses=SUCCEEDED")
    assert time.monotonic() - began < PATIENCE
    assert page["events"][0]["number"] > now["next"]


UNKNOWN = "5d1f6c1e-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def done(shared):
    job = submit_script(shared, SHORT)
    reaches(shared.client(), job, "SUCCEEDED")
    return job


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("events?after=-1", 400, "'after' is not valid"),
        ("events?after=x", 400, "'after' is not valid"),
        ("events?after=0&wait=21", 400, "'wait' is not valid"),
        ("events?limit=1001", 400, "'limit' is not valid"),
        ("events?jobStatuses=DONE", 400, "'DONE' is not a status"),
        ("events?jobs=x", 400, "'x' is not the id of a job"),
        ("events?jobs=%00", 400, "must not contain a NUL character"),
        ("events?after=1&after=2", 400, "'after' is given more than once"),
        ("events?colour=red", 400, "'colour' is not supported by this server"),
        ("jobs/{}/log?after=x", 400, "'after' is not a position"),
        ("jobs/{}/log?after=1.1", 400, "position"),
        ("jobs/{}/log?after=1.999999999999999999", 400, "position"),
        ("jobs/{}/log?attempt=0", 400, "'attempt' is not valid"),
        ("jobs/{}/log?wait=1000", 400, "'wait' is not valid"),
        ("jobs/{}/log?container=x", 400, "one container"),
        (f"jobs/{UNKNOWN}/log?wait=20", 404, f"Job {UNKNOWN} not found."),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(shared, done, path, status, text):
    refused, answer = shared.native(path.format(done))

    assert refused == status
    assert text in answer["message"]


def test_a_waiting_reader_does_not_delay_the_shutdown(simulated_command):
    thread = threading.Thread(target=lambda: get(simulated_command, "events?wait=20"))
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()

    simulated_command.stop()
    thread.join()

    assert time.monotonic() - began < 4
