"""boto3 repeats an unanswered SubmitJob, which creates one job. faults.md H11, IN22."""

import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from botocore.config import Config

from tests.service.waiting import register


def lose_the_answer(handler, _status, _body):
    """The connection ends before the response: the client does not know whether the call was carried out."""
    handler.close_connection = True
    handler.connection.close()


def answer_500(handler, _status, _body):
    send(handler, 500, b'{"message": "trouble on the way"}')


def keep_waiting(handler, status, _body):
    """Half of an answer comes, and no more until the client has had enough."""
    handler.send_response(status)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.close_connection = True
    handler.connection.recv(1)


def send(handler, status, body):
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def proxy(service, fault, times):
    """Carries calls to the server, and spoils the first answers."""
    left = [times]

    class Carrier(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            host = service.url.removeprefix("http://")
            behind = HTTPConnection(host)
            behind.request("POST", self.path, body, {**dict(self.headers), "Host": host})
            answer = behind.getresponse()
            left[0] -= 1
            (fault if left[0] >= 0 else send)(self, answer.status, answer.read())
            behind.close()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Carrier)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.fault("IN22")
@pytest.mark.parametrize("fault", [lose_the_answer, answer_500, keep_waiting])
def test_a_repeated_call_creates_one_job_and_returns_its_id(shared, fault, own_name):
    register(shared.client(), own_name, "true")
    with proxy(shared, fault, times=2) as url:
        keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret"}
        config = Config(retries={"mode": "standard", "max_attempts": 20}, read_timeout=1)  # at work it is late
        batch = boto3.client("batch", endpoint_url=url, region_name="us-east-1", config=config, **keys)

        job = batch.submit_job(jobName=own_name, jobQueue="default", jobDefinition=own_name)["jobId"]

    listed = shared.client().list_jobs(jobQueue="default", filters=[{"name": "JOB_NAME", "values": [own_name]}])
    assert [job["jobId"] for job in listed["jobSummaryList"]] == [job]


def test_two_equal_calls_create_two_jobs(shared, own_name):
    batch = shared.client()
    register(batch, own_name, "true")

    call = {"jobName": own_name, "jobQueue": "default", "jobDefinition": own_name}
    first, second = (batch.submit_job(**call) for _ in range(2))

    assert first["jobId"] != second["jobId"]
