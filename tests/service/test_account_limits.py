"""`batchq serve --auth sigv4`, and limits of accounts as SDKs see them."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from tests.service.job_queue import ENDLESS, create_key, playing, run
from tests.service.waiting import reaches, register
from tests.support.service import serving_forked

AT_ONCE = 8


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Ada's lab has one vCPU, may have twenty jobs wait; Bob's group submits twice a second; both are of the house."""
    data = tmp_path_factory.mktemp("limits") / "data"
    key = create_key("amy", data)
    run("account", "add", "lab", "--queued", "20", "--vcpus", "1", "--data", data)
    run("account", "add", "group", "--submits", "2", "--data", data)
    keys = {}
    for name, account in (("ada", "lab"), ("bob", "group")):
        run("user", "add", name, "--account", account, "--data", data)
        keys[name] = create_key(name, data)
    with serving_forked(data, "--runtime", "simulated", "--auth", "sigv4", key=key) as service:
        batch = service.client()
        register(batch, "quick", "true")
        batch.register_job_definition(jobDefinitionName="stays", type="container", containerProperties=playing(ENDLESS))
        yield SimpleNamespace(service=service, data=data, keys=keys)


def submit(batch, definition):
    return batch.submit_job(jobName="a", jobQueue="default", jobDefinition=definition)["jobId"]


def refusal(batch, definition):
    """The code and the message, None where it was taken."""
    try:
        submit(batch, definition)
    except ClientError as why:
        return why.response["Error"]["Code"], why.response["Error"]["Message"]
    return None


def refusals(clients, definition):
    """The errors of concurrent submissions."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        described = threads.map(lambda it: refusal(it, definition), clients)
        return [it for it in described if it is not None]


def first_refusal(batch, definition):
    """The refusals of repeated concurrent submissions; on a loaded machine some of them are admitted."""
    while not (refused := refusals([batch] * AT_ONCE, definition)):
        pass
    return refused[0]


def test_concurrent_clients_submit_exactly_as_many_jobs_as_the_limit(lab):
    clients = [lab.service.client(key=lab.keys["ada"]) for _ in range(AT_ONCE)]
    first = submit(clients[0], "stays")
    reaches(clients[0], first, "STARTING", "RUNNING")

    refused = refusals(clients * 4, "stays")

    assert len(refused) == 4 * AT_ONCE - 20
    assert {code for code, _ in refused} == {"ClientException"}
    assert all("Account lab and the accounts below it may have 20 queued jobs" in why for _, why in refused)


def test_an_sdk_with_retries_succeeds_and_one_without_gets_the_error(lab):
    hasty, patient = (lab.service.client(key=lab.keys["bob"], tries=tries) for tries in (1, 10))

    code, why = first_refusal(hasty, "quick")

    assert (code, "Account group may submit 2 jobs per second" in why) == ("TooManyRequestsException", True)
    assert submit(patient, "quick")
