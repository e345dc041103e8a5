"""CancelJobs and TerminateJobs: several jobs, each with its own outcome."""

from types import SimpleNamespace

import pytest

from batchq.errors import Invalid, StoreFailed

UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"

FOREIGN = f"arn:aws:batch:eu-central-1:210987654321:job/{UNKNOWN_ID}"


@pytest.fixture(
    params=[("cancel_jobs", "isCancelled"), ("terminate_jobs", "isTerminated")], ids=["cancel", "terminate"]
)
def order(request, boto):
    """A bulk operation, and the flag that it sets."""
    operation, flag = request.param
    return SimpleNamespace(send=getattr(boto, operation), flag=flag)


async def test_every_job_gets_the_reason(submit, described, order):
    ids = [await submit() for _ in range(3)]

    answer = await order.send(jobs=ids, reason="all of you")

    assert (answer["successful"], answer["errors"]) == (ids, [])
    assert [(job["statusReason"], job[order.flag]) for job in [await described(it) for it in ids]] == [
        ("all of you", True)
    ] * 3


async def test_a_job_that_cannot_be_found_counts_as_successful(order):
    answer = await order.send(jobs=[UNKNOWN_ID], reason="x")

    assert (answer["successful"], answer["errors"]) == ([UNKNOWN_ID], [])


async def test_fifty_mixed_ids_are_all_answered(submit, order):
    ids = [await submit() for _ in range(25)] + [UNKNOWN_ID] * 25

    answer = await order.send(jobs=ids, reason="x")

    assert answer["successful"] == ids


async def test_a_malformed_id_and_an_arn_of_another_account_are_each_an_error_of_its_own(submit, described, order):
    job_id = await submit()

    answer = await order.send(jobs=["garbage", job_id, FOREIGN], reason="x")

    assert answer["successful"] == [job_id]
    assert [(it["job"], it["code"]) for it in answer["errors"]] == [
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
