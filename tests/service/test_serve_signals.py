"""SIGTERM: requests in progress are answered, and jobs continue. A second signal ends the server at once."""

import json
import signal
import socket
import time
from contextlib import closing

import pytest

from batchq.cli.serve import FORCED_EXIT
from tests.service.waiting import PATIENCE, UNTIL_TOLD, reaches, register, says, tell_to_end
from tests.support.service import serving

JOBS, REQUESTS = 5, 10


class HalfAsked:
    """A SubmitJob whose second half is still to be sent."""

    def __init__(self, service, **asked):
        self._host = service.url.partition("//")[2]
        host, port = self._host.split(":")
        self._body = json.dumps({"jobName": "late", "jobQueue": "default", "jobDefinition": "late"} | asked).encode()
        self._connection = socket.create_connection((host, int(port)), timeout=PATIENCE)
        if service.trust:
            self._connection = service.trust.wrap_socket(self._connection, server_hostname=host)
        head = f"POST /v1/submitjob HTTP/1.1\r\nHost: {self._host}\r\nConnection: close\r\n"
        about = f"Content-Type: application/json\r\nContent-Length: {len(self._body)}\r\n\r\n"
        self._connection.sendall(f"{head}{about}".encode() + self._body[:9])

    def finish(self):
        """Send the rest; the answer's status and content."""
        self.ask()
        return self.answer()

    def ask(self):
        self._connection.sendall(self._body[9:])

    def answer(self):
        with closing(self._connection):
            answer = b"".join(iter(lambda: self._connection.recv(65536), b""))
        head, _, content = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(content)

    def give_up(self):
        self._connection.close()


def stops_listening(service):
    """Wait until nobody new is let in."""
    host, port = service.url.partition("//")[2].split(":")
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError("it still listens")


@pytest.fixture
def half_asked(simulated_command):
    """Under way until the test gives it up, so that an end has to wait for it."""
    register(simulated_command.client(), "late", "true")
    asking = HalfAsked(simulated_command)
    simulated_command.health()  # by now the server has begun with what came before
    yield asking
    asking.give_up()


@pytest.mark.docker
@pytest.mark.fault("LC01")
def test_sigterm_answers_requests_in_progress_and_jobs_continue(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "1") as service:
        batch = service.client()
        register(batch, "long", *UNTIL_TOLD)
        register(batch, "late", "true")
        resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": JOBS, "subnets": [], "instanceRole": "none"}
        batch.create_compute_environment(
            computeEnvironmentName="wide", type="MANAGED", computeResources=resources, state="ENABLED"
        )
        order = [{"order": 1, "computeEnvironment": "wide"}]
        batch.create_job_queue(jobQueueName="wide", priority=1, computeEnvironmentOrder=order)
        longs = [batch.submit_job(jobName="j", jobQueue="wide", jobDefinition="long")["jobId"] for _ in range(JOBS)]
        for job in longs:
            says(service, job, "ready")
        before = {it["Id"] for it in service.containers()}
        asking = [HalfAsked(service) for _ in range(REQUESTS)]
        service.health()

        service.process.send_signal(signal.SIGTERM)
        stops_listening(service)
        for it in asking:  # all of them before anything is waited for: a server waits for five seconds only
            it.ask()
        answers = [it.answer() for it in asking]
        status = service.process.wait(PATIENCE)
        running = {it["Id"] for it in service.containers() if it["State"] == "running"}
        service.process.stdout.close()
        batch = service.start().client()

        assert status == 0
        assert before <= running  # and some of those accepted last, which may start while others are answered
        assert [status for status, _ in answers] == [200] * REQUESTS
        tell_to_end(before)
        done = [reaches(batch, it, "SUCCEEDED", "FAILED") for it in longs]
        assert [(it["status"], len(it["attempts"])) for it in done] == [("SUCCEEDED", 1)] * JOBS
        lates = [reaches(batch, said["jobId"], "SUCCEEDED", "FAILED")["status"] for _, said in answers]
        assert lates == ["SUCCEEDED"] * REQUESTS
    service.sweep()


@pytest.mark.fault("LC02")
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)])
def test_a_second_signal_ends_the_server_at_once(simulated_command, half_asked, number):
    batch = simulated_command.client()
    job = batch.submit_job(jobName="kept", jobQueue="default", jobDefinition="late")["jobId"]

    simulated_command.process.send_signal(number)
    stops_listening(simulated_command)
    simulated_command.process.send_signal(number)
    status = simulated_command.process.wait(PATIENCE)

    assert status == FORCED_EXIT, "who waits for the request under way ends with 0"
    simulated_command.process.stdout.close()
    assert simulated_command.start().health()["status"] == "ok"
    (kept,) = simulated_command.client().describe_jobs(jobs=[job])["jobs"]
    assert kept["jobName"] == "kept"
