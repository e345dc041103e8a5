"""canceljobs and terminatejobs: many jobs by ids and filters, and what is told of each."""

import json

import pytest
from aiohttp import ClientError

from batchq.api.native import bulk_stop
from batchq.domain import events as on
from tests.support.builders import ADMIN

NOBODY = "5d1f6c1e-0000-4000-8000-000000000000"


@pytest.fixture
def stop(http):
    """Ask for it over HTTP; the status and the answer."""

    async def stop(what="cancel", **content):
        status, headers, answer = await http.ask("POST", f"/v1/batchq/{what}jobs", data=json.dumps(content))
        assert headers["x-amzn-RequestId"]
        return status, answer

    return stop


@pytest.fixture
async def three(server, submit):
    """One that runs, one that waits, one that is over."""
    runs, waits, over = await submit("sim-1"), await submit("Sim-2"), await submit("post")
    await server.runs(runs)
    await server.runs(over)
    await server.ends(over)
    return runs, waits, over


async def test_each_job_that_is_meant_is_told_of_and_they_are_counted(stop, three, told):
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
    assert (await told(waits))["statusReason"] == "enough"


async def test_what_is_named_is_told_of_and_why_nothing_was_done(stop, three):
    runs, _, over = three

    _, answer = await stop("terminate", jobs=[over, NOBODY, runs, f"{runs}:1", over], states=["pending"])

    assert answer["jobs"] == [
        {
            "jobId": over,
            "jobName": "post",
            "status": "SUCCEEDED",
            "outcome": "ALREADY_FINISHED",
            "message": f"Job {over} is already SUCCEEDED.",
        },
        {"jobId": NOBODY, "outcome": "NOT_FOUND", "message": f"Job {NOBODY} not found."},
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


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_child_that_is_not_spawned_is_reported_as_that(stop, submit, dry_run):
    array = await submit(arrayProperties={"size": 2})

    _, answer = await stop(jobs=[f"{array}:1", f"{array}:2"], dryRun=dry_run)

    messages = {it["jobId"]: it["message"] for it in answer["jobs"]}
    assert answer["counts"] == {"NOT_FOUND": 2}
    assert "its array has not spawned it yet" in messages[f"{array}:1"]
    assert messages[f"{array}:2"] == f"Job {array}:2 not found."


async def test_a_terminate_hands_on_its_signal_its_grace_and_its_reason(server, stop, three):
    runs, *_ = three

    await stop("terminate", jobs=[runs], signal="int", graceSeconds=7, reason="now")

    [(job, event)] = server.engine.heard
    assert job == runs
    assert isinstance(event, on.TerminateRequested)
    assert (event.reason, event.signal, event.grace.total_seconds()) == ("now", "SIGINT", 7)


async def test_who_gives_no_reason_is_the_reason(server, stop, three):
    _, waits, _ = three

    await stop(jobs=[waits])

    assert (await server.engine.job(waits)).status_reason == f"Cancelled by {ADMIN.user}"


@pytest.mark.parametrize("states", [["PENDING", "running"], ["all"], ["Submitted", "RUNNABLE", "starting", "Running"]])
async def test_states_are_those_of_people_and_of_aws_in_any_case(stop, three, states):
    runs, waits, _ = three

    _, answer = await stop(states=states, dryRun=True)

    assert {it["jobId"] for it in answer["jobs"]} == {runs, waits}


@pytest.mark.parametrize("queue", ["default", "arn:aws:batch:us-east-1:123456789012:job-queue/default"])
async def test_a_queue_goes_by_its_name_or_its_arn(stop, three, queue):
    _, answer = await stop(jobQueues=[queue], dryRun=True)

    assert len(answer["jobs"]) == 2


async def test_a_dry_run_tells_and_does_nothing(server, stop, three):
    runs, waits, over = three

    _, answer = await stop("terminate", jobs=[runs, waits, over], dryRun=True)

    assert answer["counts"] == {"ALREADY_FINISHED": 1, "STOPPING": 1, "TERMINATED": 1}
    assert (answer["dryRun"], server.engine.heard) == (True, [])


async def test_no_match_is_no_failure(stop, three):
    assert await stop(jobNames=["nothing"]) == (200, {"jobs": [], "counts": {}, "dryRun": False})


UNKNOWN = [
    ({"jobQueues": ["default", "nowhere"]}, "JobQueue nowhere not found."),
    ({"users": [ADMIN.user, "bbo"]}, "User bbo not found."),
    ({"accounts": ["root", "phys"]}, "Account phys not found."),
]


@pytest.mark.parametrize(("asked", "why"), UNKNOWN)
async def test_an_unknown_name_in_a_filter_is_an_error_that_names_it(stop, three, told, asked, why):
    for dry_run in (True, False):
        status, answer = await stop("terminate", **asked, dryRun=dry_run)

        assert (status, answer["message"]) == (400, why)
    assert not any([(await told(it))["isTerminated"] for it in three])


async def test_an_answer_of_many_pieces_is_one_json(server, stop, submit):
    ids = [await submit() for _ in range(5)]
    made = [f"{NOBODY[:-4]}{number:04x}" for number in range(1200)]

    _, answer = await stop(jobs=[*made, *ids])

    assert answer["counts"] == {"NOT_FOUND": 1200, "CANCELLED": 5}
    assert len(answer["jobs"]) == 1205


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "At least one filter is required"),
        ({"reason": "so"}, "At least one filter is required"),
        ({"jobs": []}, "'jobs'"),
        ({"jobs": ["x"]}, "'x' is not the id of a job"),
        ({"jobs": [f"{NOBODY}:"]}, "is not the id of a job"),
        ({"jobs": [f"{NOBODY}:1", f"{NOBODY}#a"]}, "is not the id of a job"),
        ({"states": ["PAUSED"]}, "'PAUSED' is not a state: use PENDING, RUNNABLE"),
        ({"states": ["SUCCEEDED"]}, "'SUCCEEDED' is not a state"),
        ({"states": ["ALL", "x"]}, "'X' is not a state"),
        ({"jobNames": "sim"}, "'jobNames'"),
        ({"jobNames": [""]}, "'jobNames.0'"),
        ({"users": ["a\0b"]}, "NUL"),
        ({"jobName": ["sim"]}, "'jobName'"),
        ({"jobNames": ["a"], "signal": "INT"}, "'signal'"),
        ({"jobNames": ["a"], "dryRun": "yes"}, "'dryRun'"),
        ({"jobNames": ["a"], "reason": ""}, "'reason'"),
    ],
)
async def test_what_is_malformed_is_refused_and_changes_nothing(server, stop, three, content, says):
    before = server.remembers()

    status, answer = await stop(**content)

    assert status == 400
    assert says in answer["message"]
    assert server.remembers() == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"signal": "STOP"}, "'STOP' is not a supported signal: use ABRT"),
        ({"signal": "9"}, "is not a supported signal"),
        ({"graceSeconds": -1}, "'graceSeconds'"),
        ({"graceSeconds": 1.5}, "'graceSeconds'"),
    ],
)
async def test_a_signal_or_a_grace_that_cannot_be_is_refused(stop, content, says):
    status, answer = await stop("terminate", jobNames=["a"], **content)

    assert status == 400
    assert says in answer["message"]


async def test_a_store_that_fails_is_told_before_an_answer_begins(server, stop, three):
    server.engine.broken = bulk_stop.Invalid("no")

    status, answer = await stop(jobNames=["*"])

    assert (status, answer["message"]) == (400, "no")


async def test_an_answer_is_ndjson(http, three):
    _, headers, _ = await http.ask("POST", "/v1/batchq/canceljobs", data=b'{"jobNames":["*"]}')

    assert headers["Content-Type"] == "application/x-ndjson"


async def test_an_answer_that_breaks_off_is_cut_off(server, http, three, monkeypatch):
    async def breaks(*_):
        yield ()
        raise RuntimeError("in the midst of it")

    monkeypatch.setattr(server.stopping, "_sketched", breaks)

    with pytest.raises(ClientError):
        await http.ask("POST", "/v1/batchq/canceljobs", data=b'{"jobNames":["*"],"dryRun":true}')
