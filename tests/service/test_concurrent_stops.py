"""Many jobs that ignore SIGTERM are terminated at once, and other requests are answered meanwhile."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import asdict

from batchq.cli.http_client import call
from batchq.compute.docker.operation_pools import LIMITS
from batchq.compute.simulated.script import Script, script_variable
from tests.service.waiting import PATIENCE, container
from tests.support.service import Service, serving
from tests.support.timing import Pauses

GRACE = 2
IGNORES_SIGTERM = Script(seconds=None, on_term=None)
IN_SHELL = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
AT_ONCE = 8  # clients
OTHERS = 24  # threads besides those of the engine: of the loop, SQLite and the resolver
QUICK = 0.25  # seconds, beyond what a busy machine takes to answer anything


def p99(took):
    return sorted(took)[int(len(took) * 0.99)]


class Many:
    """Submits so many jobs that ignore SIGTERM, by HTTP."""

    def __init__(self, service, number):
        self._service = service
        self._make_definition(number)
        with ThreadPoolExecutor(AT_ONCE) as clients:
            self._ids = list(clients.map(self._submit, range(number)))

    def wait(self, status):
        end = time.monotonic() + PATIENCE
        while (there := self.statuses()) != {status}:
            assert time.monotonic() < end, f"not all are {status}: {there}"
            time.sleep(0.3)  # rarely, because to describe all jobs is work for the server

    def terminate(self):
        """Terminate all jobs. Returns the times of the DescribeJobs requests until the last job has ended."""
        with ThreadPoolExecutor(AT_ONCE + 1) as clients:
            over = threading.Event()
            took = clients.submit(self._describe_until, over)
            try:
                list(clients.map(self._terminate, self._ids))
                self.wait("FAILED")
            finally:
                over.set()
            return took.result()

    def statuses(self):
        pages = (self._ids[first : first + 100] for first in range(0, len(self._ids), 100))
        return {job["status"] for page in pages for job in self._request("describejobs", jobs=page)["jobs"]}

    def reasons(self):
        some = self._ids[:: len(self._ids) // 8]
        return {job["statusReason"] for job in self._request("describejobs", jobs=some)["jobs"]}

    def threads(self):
        status = Path(f"/proc/{self._service.process.pid}/status").read_text()
        return int(status.split("Threads:")[1].split()[0])

    def _describe_until(self, over):
        took = []
        while not over.wait(0.002):
            took += self.described(1)
        return took

    def described(self, times):
        """When each of so many DescribeJobs begins and ends."""
        return [self._time_one() for _ in range(times)]

    def _time_one(self):
        began = time.monotonic()
        self._request("describejobs", jobs=self._ids[:1])
        return began, time.monotonic()

    def _make_definition(self, number):
        self._request("updatecomputeenvironment", computeEnvironment="local", computeResources={"maxvCpus": number})
        name, value = script_variable(IGNORES_SIGTERM)
        properties = container(*IN_SHELL, memory=6, environment=[{"name": name, "value": value}])
        self._request(
            "registerjobdefinition", jobDefinitionName="hanging", type="container", containerProperties=properties
        )

    def _submit(self, number):
        return self._request("submitjob", jobName=f"hanging-{number}", jobQueue="default", jobDefinition="hanging")[
            "jobId"
        ]

    def _terminate(self, job_id):
        self._request("terminatejob", jobId=job_id, reason="all of them")

    def _request(self, operation, **content):
        return call(self._service.url, f"/v1/{operation}", content, answer=dict)


@pytest.fixture(
    params=[
        pytest.param(("simulated", 300, lambda _: None), id="simulated"),
        pytest.param(("docker", 12, Service.remove_containers), id="docker", marks=pytest.mark.docker),
    ]
)
def many(request, tmp_path):
    runtime, number, sweeps = request.param
    with serving(tmp_path / "data", "--runtime", runtime, "--stop-grace", str(GRACE)) as service:
        yield Many(service, number)
    sweeps(service)


@pytest.mark.exhaustive
@pytest.mark.fault("SP23")
def test_many_stops_end_and_delay_no_other_request(many):
    many.wait("RUNNING")

    with Pauses() as pauses:
        usual, calls = many.described(50), many.terminate()

    usual, took = ([pauses.seconds(*call) for call in called] for called in (usual, calls))
    assert many.reasons() == {"all of them"}
    assert p99(took) < QUICK + 2 * p99(usual), f"{len(took)} calls, the slowest took {sorted(took)[-5:]}"
    assert many.threads() <= sum(limit for name, limit in asdict(LIMITS).items() if "timeout" not in name) + OTHERS
