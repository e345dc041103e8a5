"""The container of a job can reach no server on loopback, and no operation without a key."""

import pytest

from tests.service.waiting import container, reaches
from tests.support.service import serving

pytestmark = pytest.mark.docker

OPEN = ("--runtime", "simulated", "--host", "0.0.0.0")
NO_SERVER, REACHED, REFUSED = 0, 2, 4  # the first digit of the status

ASKS = r"""
server=$(ip route | awk '/default/ {print $3}')
request="GET /openapi.json HTTP/1.1\r\nHost: $2\r\nConnection: close\r\n\r\n"
status=$(
    (printf "$request"; until [ -e /over ]; do sleep 0.1; done) |
    (nc -w 30 $server $1; touch /over) |
    awk 'NR == 1 {print $2}'
)
exit $(( ${status:-0} / 100 ))
"""


@pytest.fixture(scope="module")
def here(docker_engine, tmp_path_factory):
    """The server that runs the jobs."""
    with serving(tmp_path_factory.mktemp("here") / "data") as service:
        yield service
    service.remove_containers()


@pytest.fixture
def calls(here):
    """Send a request to a server from within a job, by a host name."""
    batch = here.client()

    def calls(service, name):
        properties = container("sh", "-c", ASKS, "asks", service.url.rpartition(":")[2], name)
        batch.register_job_definition(jobDefinitionName="calls", type="container", containerProperties=properties)
        job_id = batch.submit_job(jobName="calls", jobQueue="default", jobDefinition="calls")["jobId"]
        return reaches(batch, job_id, "SUCCEEDED", "FAILED")["container"]["exitCode"]

    return calls


@pytest.mark.fault("SE16")
def test_a_job_does_not_reach_a_server_on_loopback(here, calls):
    assert calls(here, "localhost") == NO_SERVER


@pytest.mark.fault("SE16")
def test_a_job_without_a_key_is_refused_where_requests_are_signed(tmp_path, calls):
    with serving(tmp_path / "signed", *OPEN, "--auth", "sigv4") as signed:
        assert calls(signed, "localhost") == REFUSED


@pytest.mark.fault("SE16")
def test_without_authentication_a_job_is_admitted_by_a_host_name_of_the_server(tmp_path, calls):
    """The documentation of --insecure-no-auth warns of this."""
    with serving(tmp_path / "open", *OPEN, "--insecure-no-auth") as insecure:
        assert [calls(insecure, "batchq.example"), calls(insecure, "localhost")] == [REFUSED, REACHED]
