"""`batchq serve --auth sigv4`, and limits of accounts as SDKs meet them."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from tests.service.ground import did, key_of
from tests.service.waiting import reaches, register
from tests.support.service import serving

AT_ONCE = 8


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Ada's lab has one vCPU, may have twenty jobs wait; Bob's group submits twice a second; both are of the house."""
    data = tmp_path_factory.mktemp("limits") / "data"
    key = key_of("amy", data)
    did("account", "add", "lab", "--queued", "20", "--vcpus", "1", "--data", data)
    did("account", "add", "group", "--submits", "2", "--data", data)
    keys = {}
    for name, account in (("ada", "lab"), ("bob", "group")):
        did("user", "add", name, "--account", account, "--data", data)
        keys[name] = key_of(name, data)
    with serving(data, "--runtime", "simulated", "--auth", "sigv4", key=key) as service:
        register(service.client(), "job", "sleep", "3600")
        yield SimpleNamespace(service=service, data=data, keys=keys)


def submit(batch):
    return batch.submit_job(jobName="a", jobQueue="default", jobDefinition="job")["jobId"]


def refusal(batch):
    """The code and the message, None where it was taken."""
    try:
        submit(batch)
    except ClientError as why:
        return why.response["Error"]["Code"], why.response["Error"]["Message"]
    return None


def test_many_clients_at_once_have_exactly_as_many_jobs_taken_as_the_limit_says(lab):
    clients = [lab.service.client(key=lab.keys["ada"]) for _ in range(AT_ONCE)]
    first = submit(clients[0])
    reaches(clients[0], first, "STARTING", "RUNNING")

    with ThreadPoolExecutor(AT_ONCE) as threads:
        refused = [it for it in threads.map(refusal, clients * 4) if it is not None]

    assert len(refused) == 4 * AT_ONCE - 20
    assert {code for code, _ in refused} == {"ClientException"}
    assert all("Account lab may have 20 jobs that wait" in why for _, why in refused)


def test_an_sdk_that_repeats_by_itself_gets_through_and_one_that_does_not_is_told(lab):
    hasty, patient = (lab.service.client(key=lab.keys["bob"], tries=tries) for tries in (1, 10))

    with ThreadPoolExecutor(AT_ONCE) as threads:  # one after another may be slow enough on a machine at work
        refused = [it for it in threads.map(refusal, [hasty] * 5 * AT_ONCE) if it is not None]

    code, why = refused[0]
    assert (code, "Account group may submit 2 jobs a second" in why) == ("TooManyRequestsException", True)
    assert submit(patient)
