"""ListJobs."""

import pytest

from tests.api.conftest import ARN

QUEUE = {"jobQueue": "default"}


def named(summaries):
    return [job["jobName"] for job in summaries["jobSummaryList"]]


def by(name, *values):
    return {"filters": [{"name": name, "values": list(values)}]}


async def test_jobs_of_a_status_are_listed_newest_first_by_default_running_ones(server, submit, boto):
    for name in ("one", "two", "three"):
        await submit(name)
    await server.runs(await submit("runs"))

    assert named(await boto.list_jobs(**QUEUE)) == ["runs"]
    assert named(await boto.list_jobs(**QUEUE, jobStatus="SUBMITTED")) == ["three", "two", "one"]
    assert named(await boto.list_jobs(**QUEUE, jobStatus="FAILED", nextToken="")) == []


async def test_a_summary_has_the_times_of_its_job(server, submit, boto):
    job_id = await submit("fails")
    await server.runs(job_id)
    await server.ends(job_id, exit_code=3)

    (job,) = (await boto.list_jobs(jobQueue=ARN + "job-queue/default", jobStatus="FAILED"))["jobSummaryList"]

    assert (job["startedAt"], job["stoppedAt"]) == (1795262400000, 1795262490000)


async def test_a_flag_is_present_only_if_it_is_true(submit, boto):
    await boto.cancel_job(jobId=await submit(), reason="no")

    (job,) = (await boto.list_jobs(**QUEUE, jobStatus="FAILED"))["jobSummaryList"]

    assert job["isCancelled"] is True
    assert "isTerminated" not in job


FILTERS = [
    (by("JOB_NAME", "alpha"), ["Alpha"]),
    (by("JOB_NAME", "AL*"), ["Almost", "Alpha"]),
    (by("JOB_NAME", "*"), ["Almost", "Alpha", "beta"]),
    (by("JOB_NAME", "alpha", "beta", *(f"no-{n}" for n in range(98))), ["Alpha", "beta"]),
    (by("JOB_NAME", "%"), []),
    (by("JOB_DEFINITION", "sleeper"), ["Almost", "Alpha", "beta"]),
    (by("JOB_DEFINITION", "Sleeper"), []),
    (by("JOB_DEFINITION", "slee*"), ["Almost", "Alpha", "beta"]),
    (by("JOB_DEFINITION", ARN + "job-definition/sleeper:1"), ["Almost", "Alpha", "beta"]),
    (by("JOB_DEFINITION", ARN + "job-definition/sleeper:2"), []),
    (by("AFTER_CREATED_AT", "0"), ["Almost", "Alpha", "beta"]),
    (by("BEFORE_CREATED_AT", "0"), []),
    (by("BEFORE_CREATED_AT", "9" * 19), ["Almost", "Alpha", "beta"]),
    (by("SHARE_IDENTIFIER", "mine"), []),
]


@pytest.mark.fault("SE18")
@pytest.mark.parametrize(("members", "found"), FILTERS, ids=str)
async def test_a_filter_selects_jobs_of_every_status(server, submit, boto, members, found):
    await server.runs(await submit("Alpha"))
    await submit("Almost")
    await submit("beta")

    assert sorted(named(await boto.list_jobs(**QUEUE, jobStatus="RUNNING", **members))) == found


WRONG = [
    ({}, "Exactly one of"),
    ({"jobQueue": ""}, "Exactly one of"),
    ({"jobQueue": "default", "arrayJobId": "x"}, "Exactly one of"),
    ({"arrayJobId": "x", "multiNodeJobId": "x"}, "Exactly one of"),
    *(({name: "x", "jobStatus": "running"}, "Job status is not one of") for name in ("arrayJobId", "multiNodeJobId")),
    *(({name: "x", "nextToken": "garbage"}, "nextToken is not valid.") for name in ("arrayJobId", "multiNodeJobId")),
    ({"jobQueue": "nowhere"}, "JobQueue nowhere not found."),
    (
        QUEUE | {"jobStatus": "running"},
        "Job status is not one of SUBMITTED | PENDING | RUNNABLE | STARTING | RUNNING | SUCCEEDED | FAILED",
    ),
    (QUEUE | {"maxResults": 0}, "maxResults"),
    (QUEUE | {"maxResults": 1001}, "maxResults"),
    (QUEUE | {"filters": by("JOB_NAME", "a")["filters"] * 2}, "Only one filter key-value pair can be specified."),
    (QUEUE | by("job_name", "a"), "The name of a filter must be one of JOB_NAME"),
    (QUEUE | by("JOB_NAME"), "must have a value"),
    (QUEUE | by("JOB_NAME", *["a"] * 101), "The filter JOB_NAME must have at most 100 values."),
    (QUEUE | {"filters": [{"values": ["a"]}]}, "The name of a filter"),
    (QUEUE | by("BEFORE_CREATED_AT", "yesterday"), "milliseconds"),
    (QUEUE | by("AFTER_CREATED_AT", "-1"), "milliseconds"),
    (QUEUE | by("AFTER_CREATED_AT", "9" * 20), "milliseconds"),
    (QUEUE | by("JOB_DEFINITION", ARN + "job-definition/slee*"), "is not the ARN of a job definition"),
    (QUEUE | by("JOB_DEFINITION", ARN + "job-queue/default"), "is not the ARN of a job definition"),
    *((QUEUE | {"nextToken": text}, "nextToken is not valid.") for text in ("garbage", "A" * 5000, "é")),
]


@pytest.mark.fault("IN20")
async def test_an_invalid_query_is_refused(default_queue, refuses):
    await refuses("ListJobs", WRONG)


@pytest.mark.parametrize(("size", "pages_of"), [(4, [4, 3]), (7, [7]), (3, [3, 3, 1])])
async def test_pages_have_every_job_once_and_no_empty_page_follows(submit, boto, size, pages_of):
    names = [f"job-{n}" for n in range(7)]
    for name in names:
        await submit(name)

    pages = await boto.pages("list_jobs", **QUEUE, jobStatus="SUBMITTED", PaginationConfig={"PageSize": size})

    assert [len(page["jobSummaryList"]) for page in pages] == pages_of
    assert sorted(name for page in pages for name in named(page)) == names
    assert "nextToken" not in pages[-1]


async def test_pages_continue_after_the_last_job_while_jobs_are_submitted(submit, boto):
    for name in ("one", "two", "three"):
        await submit(name)
    first = await boto.list_jobs(**QUEUE, jobStatus="SUBMITTED", maxResults=2)
    await submit("four")

    rest = await boto.list_jobs(**QUEUE, jobStatus="SUBMITTED", maxResults=2, nextToken=first["nextToken"])

    assert (named(first), named(rest)) == (["three", "two"], ["one"])


async def test_with_a_filter_a_page_has_at_most_a_hundred(server, submit, boto):
    job = await server.engine.job(await submit())
    for _ in range(100):
        await submit()

    found = await boto.list_jobs(**QUEUE, maxResults=1000, **by("JOB_NAME", job.spec.name))

    assert len(found["jobSummaryList"]) == 100
    assert "nextToken" in found


@pytest.mark.fault("IN20")
@pytest.mark.parametrize(
    "other",
    [{"jobStatus": "FAILED"}, by("JOB_NAME", "a-job"), {"jobQueue": "other"}],
    ids=["status", "filter", "queue"],
)
async def test_a_token_of_another_query_is_refused(submit, boto, other):
    for _ in range(2):
        await submit()
    await boto.create_job_queue(
        jobQueueName="other", priority=1, computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "local"}]
    )
    members = QUEUE | {"jobStatus": "SUBMITTED"}
    token = (await boto.list_jobs(**members, maxResults=1))["nextToken"]

    with pytest.raises(boto.exceptions.ClientException, match="nextToken is not valid"):
        await boto.list_jobs(**members | other, nextToken=token)
