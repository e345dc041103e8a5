"""Events and logs over HTTP: by long polls, from a real server, also when it is killed meanwhile."""

import threading
import time

import pytest

from batchq.compute.simulated.script import Script
from tests.service.job_queue import playing
from tests.service.waiting import reaches
from tests.support.service import PATIENCE

SHORT = Script(seconds=0.3, output=("one line", "another line"))


def get(service, path):
    status, answer = service.native(path)
    assert status == 200, answer
    return answer


def submit(service, name="short", script=SHORT):
    batch = service.client()
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=playing(script))
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]


class Reader(threading.Thread):
    """Follows the events from the beginning; continues after the last number when the server is back."""

    def __init__(self, service):
        super().__init__()
        self.service = service
        self.events = []
        self.failures = 0
        self.leaves = threading.Event()
        self.start()

    def run(self):
        after = 0
        while not self.leaves.is_set():
            try:
                page = get(self.service, f"events?after={after}&wait=1&limit=7")
            except OSError:
                self.failures += 1
                time.sleep(0.05)
                continue
            assert not page["gap"]
            self.events += page["events"]
            after = page["next"]

    def statuses(self, job):
        return [it["status"] for it in self.events if it["jobId"] == job]

    def wait_for_ends(self, jobs):
        end = time.monotonic() + PATIENCE
        while not {it["jobId"] for it in self.events if it["status"] in {"SUCCEEDED", "FAILED"}} >= set(jobs):
            assert time.monotonic() < end
            time.sleep(0.05)

    def end(self):
        self.leaves.set()
        self.join()


def test_a_reader_gets_every_number_once_and_in_order_although_the_server_is_killed(simulated):
    reader, jobs = Reader(simulated), []
    try:
        for _ in range(3):
            jobs += [submit(simulated) for _ in range(10)]
            simulated.kill()
            simulated.start()
        reader.wait_for_ends(jobs)
    finally:
        reader.end()

    assert reader.failures > 0
    assert [it["number"] for it in reader.events] == list(range(1, len(reader.events) + 1))
    for job in jobs:
        assert reader.statuses(job) == [it["status"] for it in get(simulated, f"jobs/{job}/history")["history"]]


def test_an_event_names_the_job_and_its_status(shared):
    job = submit(shared, "Named")
    reaches(shared.client(), job, "SUCCEEDED")

    first, *_, last = get(shared, f"events?after=0&jobs={job}")["events"]
    only = get(shared, f"events?after=0&jobs={job}&statuses=running,starting&queues=default")["events"]

    assert (first["jobName"], first["jobQueue"], first["status"]) == ("Named", "default", "SUBMITTED")
    assert "attempt" not in first
    assert last["statusReason"] == "Essential container in task exited"
    assert [(it["status"], it["attempt"]) for it in only] == [("STARTING", 1), ("RUNNING", 1)]


def test_a_reader_without_a_number_begins_now_and_is_answered_soon(shared):
    now = get(shared, "events")
    job = submit(shared)
    began = time.monotonic()

    page = get(shared, f"events?after={now['next']}&wait=20&jobs={job}&statuses=SUCCEEDED")

    assert now["events"] == []
    while not page["events"]:
        page = get(shared, f"events?after={page['next']}&wait=20&jobs={job}&statuses=SUCCEEDED")
    assert time.monotonic() - began < PATIENCE
    assert page["events"][0]["number"] > now["next"]


def test_a_log_is_followed_to_its_end(shared):
    job = submit(shared)
    lines, after = [], None
    while True:
        position = "" if after is None else f"&after={after}"
        page = get(shared, f"jobs/{job}/log?wait=20&limit=1{position}")
        lines += [it["message"] for it in page["lines"]]
        after = page["next"]
        if page["over"]:
            break

    assert lines == ["one line", "another line"]
    assert page["attempt"] == 1
    assert get(shared, f"jobs/{job}/log?tail=1")["lines"][0]["message"] == "another line"


BAD = {
    "events?after=-1": "'after' is not valid",
    "events?after=x": "'after' is not valid",
    "events?after=0&wait=21": "'wait' is not valid",
    "events?limit=1001": "'limit' is not valid",
    "events?statuses=DONE": "'DONE' is not a status",
    "events?jobs=x": "'x' is not the id of a job",
    "events?jobs=%00": "must not contain a NUL character",
    "events?after=1&after=2": "'after' is given more than once",
    "events?colour=red": "'colour' is not valid",
    "jobs/JOB/log?after=x": "'after' is not a position",
    "jobs/JOB/log?after=1.1": "position",
    "jobs/JOB/log?after=1.999999999999999999": "position",
    "jobs/JOB/log?attempt=0": "'attempt' is not valid",
    "jobs/JOB/log?wait=1000": "'wait' is not valid",
    "jobs/JOB/log?container=x": "one container",
}


@pytest.fixture(scope="module")
def done(shared):
    job = submit(shared)
    reaches(shared.client(), job, "SUCCEEDED")
    return job


@pytest.mark.parametrize("path", BAD)
def test_a_bad_request_is_refused_with_the_reason(shared, done, path):
    status, answer = shared.native(path.replace("JOB", done))

    assert status == 400
    assert BAD[path] in answer["message"]


def test_the_log_of_an_unknown_job_is_not_found(shared):
    job = "5d1f6c1e-0000-4000-8000-000000000000"

    status, answer = shared.native(f"jobs/{job}/log?wait=20")

    assert (status, answer["message"]) == (404, f"Job {job} not found.")


def test_a_waiting_reader_does_not_delay_the_shutdown(simulated_command):
    thread = threading.Thread(target=lambda: get(simulated_command, "events?wait=20"))
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()

    simulated_command.stop()
    thread.join()

    assert time.monotonic() - began < 4
