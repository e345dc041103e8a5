"""CancelJobsByFilter and TerminateJobsByFilter: many jobs by ids and filters, with a line for each."""

import json

import pytest
from aiohttp import ClientError

from batchq.api.native import bulk_stop
from batchq.domain import events as on
from tests.support.builders import ADMIN

UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"


@pytest.fixture
def stop(http):
    """Send the request; returns the status and the answer."""

    async def stop(what="cancel", **content):
        status, headers, answer = await http.send("POST", f"/v1/batchq/{what}jobs", data=json.dumps(content))
        assert headers["x-amzn-RequestId"]
        assert headers["Content-Type"] == "application/x-ndjson" or status != 200
        return status, answer

    return stop


@pytest.fixture
async def three(server, submit):
    """A running job, a waiting job and a finished job."""
    runs, waits, over = await submit("sim-1"), await submit("Sim-2"), await submit("post")
    await server.runs(runs)
    await server.runs(over)
    await server.ends(over)
    return runs, waits, over


async def test_each_selected_job_has_a_line_and_is_counted(stop, three, described):
    runs, waits, _ = three

    status, answer = await stop(jobNames=["SIM-*"], users=[ADMIN.user], reason="enough")

    assert (status, answer.pop("jobs")) == (
        200,
        [
            {"jobId": waits, "jobName": "Sim-2", "status": "SUBMITTED", "outcome": "CANCELLED"},
            {"jobId": runs, "jobName": "sim-1", "status": "RUNNING", "outcome": "NOT_RETRIED"},
        ],
    )
    assert answer == {"counts": {"CANCELLED": 1, "NOT_RETRIED": 1}, "dryRun": False}
    assert (await described(waits))["statusReason"] == "enough"


async def test_each_named_job_has_a_line_with_the_reason_if_nothing_was_done(stop, three):
    runs, _, over = three

    _, answer = await stop("terminate", jobs=[over, UNKNOWN_ID, runs, f"{runs}:1", over], jobStatuses=["runnable"])

    assert answer["jobs"] == [
        {
            "jobId": over,
            "jobName": "post",
            "status": "SUCCEEDED",
            "outcome": "ALREADY_FINISHED",
            "message": f"Job {over} is already SUCCEEDED.",
        },
        {"jobId": UNKNOWN_ID, "outcome": "NOT_FOUND", "message": f"Job {UNKNOWN_ID} not found."},
        {"jobId": f"{runs}:1", "outcome": "NOT_FOUND", "message": f"Job {runs}:1 not found."},
        {
            "jobId": runs,
            "jobName": "sim-1",
            "status": "RUNNING",
            "outcome": "NOT_MATCHED",
            "message": f"Job {runs} does not match the other filters: it is RUNNING.",
        },
    ]
    assert answer["counts"] == {"ALREADY_FINISHED": 1, "NOT_FOUND": 2, "NOT_MATCHED": 1}


async def test_the_children_of_arrays_are_counted(stop, submit):
    arrays = [await submit(arrayProperties={"size": size}) for size in (2, 3)]
    await submit("single")

    _, answer = await stop(jobNames=["*"], dryRun=True)

    assert {job["jobId"]: job["children"] for job in answer["jobs"] if "children" in job} == dict(
        zip(arrays, (2, 3), strict=True)
    )
    assert (answer["counts"], answer["children"]) == ({"CANCELLED": 3}, {"CANCELLED": 5})


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_child_that_is_not_created_yet_is_reported(stop, submit, dry_run):
    array = await submit(arrayProperties={"size": 2})

    _, answer = await stop(jobs=[f"{array}:1", f"{array}:2"], dryRun=dry_run)

    messages = {job["jobId"]: job["message"] for job in answer["jobs"]}
    assert answer["counts"] == {"NOT_FOUND": 2}
    assert "its array has not spawned it yet" in messages[f"{array}:1"]
    assert messages[f"{array}:2"] == f"Job {array}:2 not found."


async def test_a_terminate_passes_signal_grace_and_reason_to_the_engine(server, stop, three):
    runs, *_ = three

    await stop("terminate", jobs=[runs], signal="int", graceSeconds=7, reason="now")

    [(job, event)] = server.engine.received
    assert job == runs
    assert isinstance(event, on.TerminateRequested)
    assert (event.reason, event.signal, event.grace.total_seconds()) == ("now", "SIGINT", 7)


@pytest.mark.parametrize(
    "members",
    [
        {"jobStatuses": ["Submitted", "RUNNABLE", "starting", "Running", "SUCCEEDED"]},
        {"jobNames": ["*m-*"]},
        {"createdAfter": 0, "mine": True},
        {"jobDefinitions": ["*"]},
        {"jobQueues": ["default"]},
        {"jobQueues": ["arn:aws:batch:us-east-1:123456789012:job-queue/default"]},
    ],
)
async def test_the_filters_are_those_of_a_search(stop, three, members):
    runs, waits, _ = three

    _, answer = await stop(**members, dryRun=True)

    assert {job["jobId"] for job in answer["jobs"]} == {runs, waits}


async def test_a_dry_run_reports_and_changes_nothing(server, stop, three):
    runs, waits, over = three

    _, answer = await stop("terminate", jobs=[runs, waits, over], dryRun=True)

    assert answer["counts"] == {"ALREADY_FINISHED": 1, "STOPPING": 1, "TERMINATED": 1}
    assert (answer["dryRun"], server.engine.received) == (True, [])


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"jobQueues": ["default", "nowhere"]}, "JobQueue nowhere not found."),
        ({"users": [ADMIN.user, "bbo"]}, "User bbo not found."),
        ({"accounts": ["root", "phys"]}, "Account phys not found."),
    ],
)
async def test_an_unknown_name_in_a_filter_is_an_error_that_names_it(stop, three, described, members, why):
    for dry_run in (True, False):
        status, answer = await stop("terminate", **members, dryRun=dry_run)

        assert (status, answer["message"]) == (400, why)
    assert not any([(await described(job))["isTerminated"] for job in three])


async def test_a_job_that_was_created_later_is_not_selected(stop, three, described):
    runs, _, _ = three
    created = (await described(runs))["createdAt"]

    assert await stop(jobNames=["sim-*"], createdBefore=created) == (200, {"jobs": [], "counts": {}, "dryRun": False})


INVALID = [
    ("cancel", {}, "At least one filter is required"),
    ("cancel", {"reason": "so"}, "At least one filter is required"),
    ("cancel", {"createdBefore": 1}, "At least one filter is required"),
    ("cancel", {"jobNames": ["a"], "createdBefore": -1}, "'createdBefore'"),
    ("cancel", {"jobs": []}, "'jobs'"),
    ("cancel", {"jobs": ["x"]}, "'x' is not the id of a job"),
    ("cancel", {"jobs": [f"{UNKNOWN_ID}:"]}, "is not the id of a job"),
    ("cancel", {"jobs": [f"{UNKNOWN_ID}:1", f"{UNKNOWN_ID}#a"]}, "is not the id of a job"),
    ("cancel", {"createdAfter": 1, "children": True}, "At least one filter is required"),
    ("cancel", {"mine": False}, "At least one filter is required"),
    ("cancel", {"jobStatuses": ["PAUSED"]}, "'PAUSED' is not a status: use SUBMITTED, PENDING"),
    ("cancel", {"jobStatuses": ["SUCCEEDED"]}, "Only unfinished jobs are stopped"),
    ("cancel", {"mine": True, "endedAfter": 1}, "Only unfinished jobs are stopped"),
    ("cancel", {"idPrefix": "5d1f"}, "'idPrefix' must have"),
    ("cancel", {"jobNames": "sim"}, "'jobNames'"),
    ("cancel", {"jobNames": [""]}, "'jobNames.0'"),
    ("cancel", {"users": ["a\0b"]}, "NUL"),
    ("cancel", {"jobName": ["sim"]}, "'jobName'"),
    ("cancel", {"jobNames": ["a"], "signal": "INT"}, "'signal'"),
    ("cancel", {"jobNames": ["a"], "dryRun": "yes"}, "'dryRun'"),
    ("cancel", {"jobNames": ["a"], "reason": ""}, "'reason'"),
    ("terminate", {"jobNames": ["a"], "signal": "STOP"}, "'STOP' is not a supported signal: use ABRT"),
    ("terminate", {"jobNames": ["a"], "signal": "9"}, "is not a supported signal"),
    ("terminate", {"jobNames": ["a"], "graceSeconds": -1}, "'graceSeconds'"),
    ("terminate", {"jobNames": ["a"], "graceSeconds": 1.5}, "'graceSeconds'"),
    ("terminate", {"jobNames": ["a"], "force": True, "graceSeconds": 1}, "Force sends SIGKILL at once"),
    ("terminate", {"jobNames": ["a"], "force": True, "signal": "INT"}, "Force sends SIGKILL at once"),
    ("terminate", {"jobNames": ["a"], "force": True, "checkpoint": True}, "Force sends SIGKILL at once"),
    ("terminate", {"jobNames": ["a"], "checkpoint": "yes"}, "'checkpoint'"),
]


async def test_an_invalid_request_is_refused(stop, default_queue):
    for command, content, text in INVALID:
        status, answer = await stop(command, **content)

        assert status == 400, content
        assert text in answer["message"]


async def test_a_store_failure_is_reported_before_the_response_starts(server, stop, three):
    server.engine.broken = bulk_stop.Invalid("no")

    status, answer = await stop(jobNames=["*"])

    assert (status, answer["message"]) == (400, "no")


async def test_an_incomplete_response_is_aborted(server, http, three, monkeypatch):
    async def breaks(*_):
        yield ()
        raise RuntimeError("in the midst of it")

    monkeypatch.setattr(server.stopping, "_previewed", breaks)

    with pytest.raises(ClientError):
        await http.send("POST", "/v1/batchq/canceljobs", data=b'{"jobNames":["*"],"dryRun":true}')
