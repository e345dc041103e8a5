"""CancelJob and TerminateJob: the requests and their responses. The scenarios test what happens to the job."""

import pytest

from batchq.domain import events as on
from tests.api.conftest import ARN
from tests.api.several import GANG
from tests.support.builders import ADMIN

UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"
EVENTS = {"CancelJob": on.CancelRequested, "TerminateJob": on.TerminateRequested}

pytestmark = pytest.mark.parametrize("operation", EVENTS)


@pytest.fixture
async def gang(submit, boto):
    await boto.register_job_definition(**GANG)
    return await submit(jobDefinition="gang")


@pytest.mark.parametrize("reason", ["  100 % «done» {0} %s\n", "ä" * 1024])
async def test_a_queued_job_fails_with_the_unchanged_reason(submit, http, described, operation, reason):
    job_id = await submit()

    status, _, answer = await http.post(operation, {"jobId": f"{ARN}job/{job_id}", "reason": reason})

    job = await described(job_id)
    assert (status, answer) == (200, {})
    assert (job["status"], job["statusReason"]) == ("FAILED", reason)
    assert (job["isCancelled"], job["isTerminated"]) == (operation == "CancelJob", operation == "TerminateJob")


@pytest.mark.parametrize("job_id", [UNKNOWN_ID, "garbage", "../../etc", "a" * 10240, ARN + "job-queue/default", "arn:"])
async def test_an_unknown_id_is_not_an_error_and_changes_nothing(server, submit, http, operation, job_id):
    await submit()
    before = server.stored_rows()

    status, _, answer = await http.post(operation, {"jobId": job_id, "reason": "no"})

    assert (status, answer) == (200, {})
    assert server.stored_rows() == before


async def test_a_malformed_id_does_not_reach_the_engine(server, http, operation):
    await http.post(operation, {"jobId": "garbage", "reason": "no"})

    assert not server.engine.reached.is_set()


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"jobId": ""}, "'jobId' is a required field (cannot be an empty string)"),
        ({"reason": ""}, "'reason' is a required field (cannot be an empty string)"),
        ({"reason": None}, "'reason'"),
        ({"reason": "x" * 1025}, "'reason' must be at most 1024 characters"),
        ({"reason": "a\0b"}, "NUL"),
        ({"jobId": 7}, "'jobId'"),
    ],
    ids=str,
)
async def test_invalid_requests_are_refused(refused, operation, members, text):
    assert text in await refused(operation, {"jobId": UNKNOWN_ID, "reason": "no"} | members)


@pytest.mark.parametrize("name", ["{}#3", ARN + "job/{}#3"])
async def test_the_engine_gets_the_node(server, gang, http, operation, name):
    status, _, answer = await http.post(operation, {"jobId": name.format(gang), "reason": "no"})

    assert (status, answer) == (200, {})
    assert server.engine.received == [(gang, EVENTS[operation](reason="no", user=ADMIN.user, node=3))]


async def test_the_engine_gets_the_job_without_a_node(server, gang, http, operation):
    await http.post(operation, {"jobId": gang, "reason": "no"})

    assert server.engine.received == [(gang, EVENTS[operation](reason="no", user=ADMIN.user))]


@pytest.mark.parametrize("node", ["4", "03", "99999"])
async def test_an_unknown_node_is_not_an_error_and_changes_nothing(server, gang, http, operation, node):
    status, _, answer = await http.post(operation, {"jobId": f"{gang}#{node}", "reason": "no"})

    assert (status, answer, server.engine.received) == (200, {}, [])


async def test_a_single_job_has_no_nodes_to_stop(server, submit, http, operation):
    status, _, answer = await http.post(operation, {"jobId": f"{await submit()}#0", "reason": "no"})

    assert (status, answer, server.engine.received) == (200, {}, [])
