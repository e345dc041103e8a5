"""CancelJob, TerminateJob, CancelJobs, TerminateJobs: responses. The scenarios test what happens to the jobs."""

from types import SimpleNamespace

import pytest

from batchq.domain import events as on
from batchq.errors import Invalid, StoreFailed
from tests.api.conftest import ARN
from tests.api.several import GANG
from tests.support.builders import ADMIN

UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"
FOREIGN = f"arn:aws:batch:eu-central-1:210987654321:job/{UNKNOWN_ID}"
EVENTS = {"CancelJob": on.CancelRequested, "TerminateJob": on.TerminateRequested}


@pytest.fixture(params=EVENTS)
def operation(request):
    return request.param


@pytest.fixture
def stop(accepted, operation):
    """Cancel or terminate a job. The response is empty."""

    async def stop(job_id, reason="no"):
        assert await accepted(operation, {"jobId": job_id, "reason": reason}) == {}

    return stop


@pytest.fixture
async def gang(submit, boto):
    await boto.register_job_definition(**GANG)
    return await submit(jobDefinition="gang")


@pytest.mark.parametrize("reason", ["  100 % «done» {0} %s\n", "ä" * 1024])
async def test_a_queued_job_fails_with_the_unchanged_reason(submit, stop, described, operation, reason):
    job_id = await submit()

    await stop(f"{ARN}job/{job_id}", reason)

    job = await described(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", reason)
    assert (job["isCancelled"], job["isTerminated"]) == (operation == "CancelJob", operation == "TerminateJob")


async def test_an_unknown_id_is_not_an_error_and_changes_nothing(server, submit, stop):
    await submit()
    before = server.stored_rows()
    for job_id in (UNKNOWN_ID, "garbage", "../../etc", "a" * 10240, ARN + "job-queue/x", "arn:"):
        server.engine.reached.clear()

        await stop(job_id)

        assert server.stored_rows() == before
        assert server.engine.reached.is_set() == (job_id == UNKNOWN_ID)


INVALID = [
    ({"jobId": ""}, "'jobId' is a required field (cannot be an empty string)"),
    ({"reason": ""}, "'reason' is a required field (cannot be an empty string)"),
    ({"reason": None}, "'reason'"),
    ({"reason": "x" * 1025}, "'reason' must be at most 1024 characters"),
    ({"reason": "a\0b"}, "NUL"),
    ({"jobId": 7}, "'jobId'"),
]


async def test_invalid_requests_are_refused(refuses, operation):
    await refuses(operation, INVALID, jobId=UNKNOWN_ID, reason="no")


@pytest.mark.parametrize("case", [("{}#3", 3), (ARN + "job/{}#3", 3), ("{}", None)], ids=str)
async def test_the_engine_gets_the_job_and_the_node(server, gang, stop, operation, case):
    name, node = case

    await stop(name.format(gang))

    assert server.engine.received == [(gang, EVENTS[operation](reason="no", user=ADMIN.user, node=node))]


async def test_an_unknown_node_is_not_an_error_and_changes_nothing(server, gang, submit, stop):
    for job_id in (
        *(f"{gang}#{node}" for node in ("4", "03", "99999")),
        f"{await submit()}#0",
    ):  # a single job has none
        await stop(job_id)

    assert server.engine.received == []


@pytest.fixture(
    params=[("cancel_jobs", "isCancelled"), ("terminate_jobs", "isTerminated")], ids=["cancel", "terminate"]
)
def order(request, boto):
    """A bulk operation, and the flag that it sets."""
    operation, flag = request.param
    return SimpleNamespace(send=getattr(boto, operation), flag=flag)


async def test_each_of_fifty_jobs_gets_the_reason_and_unknown_ones_count_as_successful(submit, described, order):
    ids = [await submit() for _ in range(25)] + [UNKNOWN_ID] * 25

    answer = await order.send(jobs=ids, reason="all of you")

    assert (answer["successful"], answer["errors"]) == (ids, [])
    first, last = await described(ids[0]), await described(ids[24])
    assert [(job["statusReason"], job[order.flag]) for job in (first, last)] == [("all of you", True)] * 2


async def test_a_malformed_id_and_an_arn_of_another_account_are_each_an_error_of_its_own(submit, described, order):
    job_id = await submit()

    answer = await order.send(jobs=["garbage", job_id, FOREIGN], reason="x")

    assert answer["successful"] == [job_id]
    assert [(error["job"], error["code"]) for error in answer["errors"]] == [
        ("garbage", "ValidationException"),
        (FOREIGN, "ClientException"),
    ]
    assert (await described(job_id))[order.flag] is True


@pytest.mark.parametrize(
    ("why", "code"),
    [(StoreFailed("disk full"), "ServerException"), (Invalid("not now"), "ClientException")],
    ids=["store", "invalid"],
)
async def test_a_failure_of_one_job_is_reported_for_that_job(server, submit, order, why, code):
    job_id = await submit()
    server.engine.broken = why

    answer = await order.send(jobs=[job_id], reason="x")

    assert answer["errors"] == [{"job": job_id, "code": code, "message": str(why)}]


@pytest.mark.parametrize(
    "members",
    [{"jobs": []}, {"jobs": [UNKNOWN_ID] * 51}, {"reason": ""}, {"reason": "x" * 1025}],
    ids=["0", "51", "", "1025"],
)
async def test_an_invalid_request_is_refused_as_a_whole(submit, boto, order, members):
    members = {"jobs": [await submit()], "reason": "x"} | members
    with pytest.raises(boto.exceptions.ClientException):
        await order.send(**members)
