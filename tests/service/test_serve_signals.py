"""SIGTERM: requests in progress are answered, and jobs continue. A second signal ends the server at once."""

import json
import signal
import socket
import time
from contextlib import closing

import pytest

from batchq.cli.serve import FORCED_EXIT
from tests.service.waiting import (
    PATIENCE,
    UNTIL_SIGNALLED,
    create_queue,
    end_by_signal,
    reaches,
    register,
    wait_for_output,
)
from tests.support.service import serving

JOBS, REQUESTS = 5, 10


class PartialRequest:
    """A SubmitJob request of which the second part is sent later."""

    def __init__(self, service, **members):
        self._host = service.url.partition("//")[2]
        host, port = self._host.split(":")
        self._body = json.dumps({"jobName": "late", "jobQueue": "default", "jobDefinition": "late"} | members).encode()
        self._connection = socket.create_connection((host, int(port)), timeout=PATIENCE)
        if service.trust:
            self._connection = service.trust.wrap_socket(self._connection, server_hostname=host)
        head = f"POST /v1/submitjob HTTP/1.1\r\nHost: {self._host}\r\nConnection: close\r\n"
        about = f"Content-Type: application/json\r\nContent-Length: {len(self._body)}\r\n\r\n"
        self._connection.sendall(f"{head}{about}".encode() + self._body[:9])

    def finish(self):
        """Send the rest. Returns the status and the content of the response."""
        self.send_rest()
        return self.response()

    def send_rest(self):
        self._connection.sendall(self._body[9:])

    def response(self):
        with closing(self._connection):
            answer = b"".join(iter(lambda: self._connection.recv(65536), b""))
        head, _, content = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(content)

    def close(self):
        self._connection.close()


def stops_listening(service):
    """Wait until the server refuses connections."""
    host, port = service.url.partition("//")[2].split(":")
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError("the server still listens")


@pytest.fixture
def partial_request(simulated_command):
    """A request in progress until the test ends: a shutdown has to wait for it."""
    register(simulated_command.client(), "late", "true")
    request = PartialRequest(simulated_command)
    simulated_command.health()  # now the server has begun to read the request
    yield request
    request.close()


@pytest.mark.docker
@pytest.mark.fault("LC01")
def test_sigterm_answers_requests_in_progress_and_jobs_continue(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "1") as service:
        batch = service.client()
        register(batch, "long", *UNTIL_SIGNALLED)
        register(batch, "late", "true")
        create_queue(batch, "wide", vcpus=JOBS)
        longs = [batch.submit_job(jobName="j", jobQueue="wide", jobDefinition="long")["jobId"] for _ in range(JOBS)]
        for job in longs:
            wait_for_output(service, job, "ready")
        before = {container["Id"] for container in service.containers()}
        requests = [PartialRequest(service) for _ in range(REQUESTS)]
        service.health()

        service.process.send_signal(signal.SIGTERM)
        stops_listening(service)
        for request in requests:  # all of them before any response: a server waits for five seconds only
            request.send_rest()
        responses = [request.response() for request in requests]
        status = service.process.wait(PATIENCE)
        running = {container["Id"] for container in service.containers() if container["State"] == "running"}
        service.process.stdout.close()
        batch = service.start().client()

        assert status == 0
        assert before <= running  # jobs accepted last may start during the shutdown
        assert [status for status, _ in responses] == [200] * REQUESTS
        end_by_signal(before)
        done = [reaches(batch, long, "SUCCEEDED", "FAILED") for long in longs]
        assert [(job["status"], len(job["attempts"])) for job in done] == [("SUCCEEDED", 1)] * JOBS
        lates = [reaches(batch, job["jobId"], "SUCCEEDED", "FAILED")["status"] for _, job in responses]
        assert lates == ["SUCCEEDED"] * REQUESTS
    service.remove_containers()


@pytest.mark.fault("LC02")
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)])
def test_a_second_signal_ends_the_server_at_once(simulated_command, partial_request, number):
    batch = simulated_command.client()
    job = batch.submit_job(jobName="kept", jobQueue="default", jobDefinition="late")["jobId"]

    simulated_command.process.send_signal(number)
    stops_listening(simulated_command)
    simulated_command.process.send_signal(number)
    status = simulated_command.process.wait(PATIENCE)

    assert status == FORCED_EXIT, "a server that waits for the request ends with 0"
    simulated_command.process.stdout.close()
    assert simulated_command.start().health()["status"] == "ok"
    (kept,) = simulated_command.client().describe_jobs(jobs=[job])["jobs"]
    assert kept["jobName"] == "kept"
