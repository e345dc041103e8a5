"""A server with few resources of its machine: it refuses clearly, and continues when there are more."""

import json
import resource
import socket
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.service.waiting import PATIENCE, is_closed, reaches, register, until
from tests.support.service import serving

FEW_FILES = ("prlimit", "--nofile=64")
MANY = 100  # connections
LESS_THAN_A_STACK = 6 * 2**20  # bytes of memory in which no thread can be begun


class Callers:
    """Connections that send nothing."""

    def __init__(self, service, number):
        host, port = service.url.removeprefix("http://").split(":")
        self._held = ExitStack()
        self._open = [
            self._held.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
            for _ in range(number)
        ]

    def refused(self):
        """How many have been hung up on."""
        return sum(map(is_closed, self._open))

    def leave(self):
        self._held.close()


def health(service):
    host = service.url.removeprefix("http://")
    with closing(HTTPConnection(host, timeout=PATIENCE)) as calling:
        calling.request("GET", "/healthz")
        return json.load(calling.getresponse())


def memory_of(process):
    """Bytes of address space."""
    described = Path(f"/proc/{process.pid}/statm").read_text()
    return int(described.split()[0]) * resource.getpagesize()


@pytest.mark.fault("LC09")
def test_with_few_file_descriptors_idle_connections_are_closed_and_jobs_run(tmp_path):
    with serving(tmp_path / "data", "--runtime", "simulated", under=FEW_FILES) as service:
        batch = service.client()
        register(batch, "runs", "true")

        callers = Callers(service, MANY)
        status = health(service)["status"]
        job = batch.submit_job(jobName="runs", jobQueue="default", jobDefinition="runs")["jobId"]
        reaches(batch, job, "SUCCEEDED")
        refused = callers.refused()
        callers.leave()

        assert status == "ok"
        assert refused > MANY / 2
        assert health(service)["status"] == "ok"
        assert "Too many open files" not in service.log.read_text()


@pytest.mark.docker
@pytest.mark.fault("LC09")
def test_with_few_file_descriptors_containers_run(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "1", under=FEW_FILES) as service:
        batch = service.client()
        register(batch, "runs", "true")
        callers = Callers(service, MANY)

        jobs = [batch.submit_job(jobName="runs", jobQueue="default", jobDefinition="runs")["jobId"] for _ in range(4)]

        assert [reaches(batch, job, "SUCCEEDED", "FAILED")["status"] for job in jobs] == ["SUCCEEDED"] * 4
        callers.leave()
    service.remove_containers()


@pytest.mark.docker
@pytest.mark.fault("LC09")
def test_without_further_threads_jobs_wait(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "1") as service:
        batch = service.client()
        register(batch, "runs", "true")
        _, most = resource.prlimit(service.process.pid, resource.RLIMIT_AS)
        tight = memory_of(service.process) + LESS_THAN_A_STACK
        resource.prlimit(service.process.pid, resource.RLIMIT_AS, (tight, most))

        job = batch.submit_job(jobName="runs", jobQueue="default", jobDefinition="runs")["jobId"]
        until(lambda: "can't start new thread" in service.log.read_text())
        meanwhile = health(service)["status"]
        resource.prlimit(service.process.pid, resource.RLIMIT_AS, (most, most))
        done = reaches(batch, job, "SUCCEEDED", "FAILED")

        assert meanwhile in {"ok", "degraded"}
        assert (done["status"], len(done["attempts"])) == ("SUCCEEDED", 1)
        assert "Traceback" not in service.log.read_text()
    service.remove_containers()
