"""SearchJobs: `POST /v1/batchq/listjobs`."""

import asyncio

import pytest

from batchq.api.operations.job_pages import SLICE, in_slices
from batchq.domain import events as on
from batchq.domain.access.accounts import AccountName, Caller, UserName
from batchq.domain.enums import Role, Status, StopKind
from batchq.domain.ids import QueueName
from batchq.domain.job_request import JobRequest
from batchq.domain.lifecycle.stopping import is_stopped_by_user
from batchq.errors import Invalid
from tests.api.conftest import ARN
from tests.support import builders
from tests.support.builders import ADMIN


@pytest.fixture
def search(accepted):
    """Search; returns the whole answer."""
    return lambda **members: accepted("batchq/ListJobs", members)


def ids(answer):
    return [job["jobId"] for job in answer["jobs"]]


async def test_without_a_filter_all_jobs_are_listed_newest_first(server, submit, search):
    waiting, ended = await submit("first"), await submit("second")
    await server.runs(ended)
    await server.ends(ended, exit_code=3)

    answer = await search()

    assert ids(answer) == [ended, waiting]
    assert answer["complete"] is True
    assert answer.keys() == {"jobs", "complete"}


async def test_a_row_has_the_times_and_the_vcpus_of_its_job(server, submit, search):
    job_id = await submit("first")
    await server.runs(job_id)
    await server.ends(job_id, exit_code=3)

    (row,) = (await search(jobs=[job_id]))["jobs"]

    assert (row["startedAt"], row["stoppedAt"], row["vcpus"]) == (1795262400000, 1795262490000, 1.0)


async def test_an_array_is_one_row_and_its_children_are_listed_on_request(submit, search):
    array = await submit("sweep", arrayProperties={"size": 2})

    assert ids(await search()) == [array]
    assert ids(await search(parentId=array)) == []
    (row,) = (await search(idPrefix=array[:8].upper()))["jobs"]
    assert (row["arraySize"], row["statusSummary"]["RUNNING"]) == (2, 0)


async def test_pages_follow_one_another(submit, search):
    submitted = [await submit(f"job-{number}") for number in range(5)]
    pages, token = [], {}
    while token is not None:
        answer = await search(maxResults=2, jobNames=["job-*"], **token)
        pages.append(ids(answer))
        token = {"nextToken": answer["nextToken"]} if "nextToken" in answer else None
        assert answer["complete"] is (token is None)
        assert ("searchedBackTo" in answer) is (token is not None)

    assert pages == [submitted[:2:-1], submitted[2:0:-1], submitted[:1]]


async def test_a_token_of_another_search_is_refused(submit, search, http):
    for name in ("a", "b"):
        await submit(name)
    token = (await search(maxResults=1))["nextToken"]

    assert ids(await search(maxResults=5, nextToken=token))
    status, _, answer = await http.post("batchq/ListJobs", {"nextToken": token, "jobNames": ["a"]})
    assert (status, answer["message"]) == (400, "nextToken is not valid.")


INVALID = [
    ({"jobStatuses": ["DONE"]}, "'DONE' is not a status"),
    ({"jobs": ["1"]}, "'1' is not the id of a job"),
    ({"parentId": "x"}, "'x' is not the id of a job"),
    ({"idPrefix": "abcdefg"}, "'idPrefix' must have at least the first 8 characters"),
    ({"orderBy": "NAME"}, "'orderBy' must be one of CREATED, ENDED"),
    ({"orderBy": "ENDED", "children": True}, "'children' with 'orderBy' ENDED needs"),
    ({"jobNames": []}, "'jobNames' is not valid"),
    ({"jobNames": ["a"] * 101}, "'jobNames' is not valid"),
    ({"maxResults": 1001}, "'maxResults' is not valid"),
    ({"createdAfter": "noon"}, "'createdAfter' is not valid"),
    ({"queue": "default"}, "'queue' is not supp"),
    ({"jobQueues": ["nowhere"]}, "JobQueue nowhere not found."),
    ({"users": ["unknown"]}, "User unknown not found."),
    ({"accounts": ["none"]}, "Account none not found."),
]


async def test_an_invalid_member_is_named(http, default_queue):
    for members, message in INVALID:
        status, _, answer = await http.post("batchq/ListJobs", members)

        assert (status, answer["message"][: len(message)]) == (400, message)


async def test_filters_are_combined(server, submit, search):
    train, other = await submit("Train-1"), await submit("eval-1")
    await submit("train-2")
    await server.runs(train)
    found = {"jobQueues": [f"{ARN}job-queue/default"], "jobStatuses": ["running"], "jobNames": ["train*"], "mine": True}

    assert ids(await search(**found)) == [train]
    assert ids(await search(**found | {"jobDefinitions": ["sleeper:2"]})) == []
    assert ids(await search(jobNames=["*AL-1"], createdAfter=1)) == [other]


async def test_jobs_are_found_by_the_exit_code_of_their_latest_attempt(server, submit, search, http):
    failed, retried, succeeded = await submit("a"), await submit("b", retryStrategy={"attempts": 2}), await submit("c")
    for job_id, code in ((failed, 3), (retried, 3), (succeeded, 0)):
        await server.runs(job_id)
        await server.ends(job_id, exit_code=code)

    assert ids(await search(exitCodes=[3])) == [retried, failed]
    assert ids(await search(exitCodes=[0, 4])) == [succeeded]
    assert ids(await search(exitCodes=[3], jobStatuses=["FAILED"])) == [failed]
    await server.engine.happens(retried, on.Placed(environment="local"))
    assert ids(await search(exitCodes=[3])) == [failed]
    for wrong in ([], ["3"], [-1], [2**32]):
        status, _, answer = await http.post("batchq/ListJobs", {"exitCodes": wrong})
        assert (status, answer["message"][:12]) == (400, "'exitCodes' " if not wrong else "'exitCodes.0")


async def test_a_row_says_that_a_user_stopped_the_job(submit, search, http):
    cancelled, terminated = await submit("a"), await submit("b")
    await submit("c")
    await http.post("CancelJob", {"jobId": cancelled, "reason": "enough"})
    await http.post("TerminateJob", {"jobId": terminated, "reason": "enough"})

    stopped = {job["jobId"] for job in (await search())["jobs"] if job.get("stoppedByUser")}

    assert stopped == {cancelled, terminated}


async def test_failed_jobs_are_found_by_whether_they_were_stopped(submit, search, http):
    cancelled = await submit("a")
    await submit("b")
    await http.post("CancelJob", {"jobId": cancelled, "reason": "enough"})

    assert [job["jobId"] for job in (await search(stopped=True))["jobs"]] == [cancelled]
    assert (await search(stopped=False))["jobs"] == []


@pytest.mark.parametrize(
    ("order", "by_user"),
    [
        (builders.stop(user=UserName("ada")), True),
        (builders.cancel(user=UserName("ada")), True),
        (builders.stop(), False),  # of a budget
        (builders.cancel(), False),  # of a queue's time limit
        (builders.stop(kind=StopKind.TIMEOUT), False),
        (builders.stop(kind=StopKind.PAUSE, user=UserName("ada")), False),
        (builders.stop(kind=StopKind.FORCE_FAIL, user=UserName("ada")), False),
    ],
)
def test_orders_of_the_server_itself_and_of_an_operator_are_not_stops_by_a_user(order, by_user):
    assert is_stopped_by_user(builders.job(status=Status.FAILED, stop_orders=(order,))) is by_user


@pytest.mark.fault("SE82")
async def test_only_a_submitter_who_sees_the_named_job_repeats_it(server, submit):
    """A tag alone would let any user hide the failed jobs of others from a rerun."""
    old = await submit("old")
    stranger = Caller(user=UserName("ada"), account=AccountName("lab"), role=Role.USER)
    tags = (("batchq:rerun-of", old),)
    again = JobRequest(name="new", queue=QueueName("default"), definition_name="sleeper", tags=tags)

    with pytest.raises(Invalid, match="not found"):
        await server.submissions.submit(again, caller=stranger)
    assert (await server.submissions.submit(again, caller=ADMIN)).spec.rerun_of == old


@pytest.mark.fault("SE25")
async def test_other_requests_are_handled_between_slices_of_a_long_answer():
    order = []

    async def other():
        while True:
            order.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for number in in_slices(range(2 * SLICE + 1)):
        order.append(number)  # noqa: PERF401 - the other task appends in between
    task.cancel()

    assert order == [*range(SLICE), "other", *range(SLICE, 2 * SLICE), "other", 2 * SLICE]
