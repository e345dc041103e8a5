"""Stop orders in responses: DescribeJobs' member `batchq`, GetJobHistory, and the lines of a bulk stop."""

import json

import pytest

from batchq.domain import events as on
from tests.api.test_describe_jobs import MS
from tests.support.builders import ADMIN

NOW = MS + 11_000  # the clock of the tests when the requests arrive
CANCEL = {"kind": "CANCEL", "user": ADMIN.user, "at": NOW, "reason": "too hot"}
TERMINATE = {"kind": "TERMINATE", "user": ADMIN.user, "at": NOW, "reason": "at once"}


@pytest.fixture
async def running(server, submit):
    job_id = await submit(retryStrategy={"attempts": 3})
    await server.runs(job_id)
    return job_id


@pytest.fixture
def shown(http):
    """The member `batchq` of the job in DescribeJobs, without the owner."""

    async def shown(job_id):
        _, _, answer = await http.post("DescribeJobs", {"jobs": [job_id]})
        (job,) = answer["jobs"]
        return {name: value for name, value in job["batchq"].items() if name not in {"user", "account"}}

    return shown


async def history(http, job_id):
    _, _, answer = await http.send("GET", f"/v1/batchq/jobs/{job_id}/history")
    return [(job["status"], job["stopOrder"]) for job in answer["history"] if "stopOrder" in job]


async def stop(http, what, **content):
    _, _, answer = await http.send("POST", f"/v1/batchq/{what}jobs", data=json.dumps(content))
    return answer["jobs"]


async def test_a_cancel_of_a_running_job_is_shown(running, shown, http, boto):
    assert await shown(running) == {}

    await http.post("CancelJob", {"jobId": running, "reason": "too hot"})

    assert await shown(running) == {"stopOrder": CANCEL, "stopOrders": [CANCEL]}
    assert await history(http, running) == [("RUNNING", {"progress": "ORDERED", **CANCEL})]
    _, _, listed = await http.post("batchq/ListJobs", {"jobs": [running]})
    assert [job["stopOrder"] for job in listed["jobs"]] == [CANCEL]
    (job,) = (await boto.describe_jobs(jobs=[running]))["jobs"]
    assert (job["status"], job["isCancelled"]) == ("RUNNING", False)


async def test_a_terminate_after_a_cancel_shows_both_orders_and_the_signal(server, running, shown, http):
    await http.post("CancelJob", {"jobId": running, "reason": "too hot"})
    await http.post("TerminateJob", {"jobId": running, "reason": "at once"})
    await server.engine.happens(running, on.StopSignalDelivered(attempt=1))

    seen = await shown(running)

    cancel, terminate = seen["stopOrders"]
    assert (cancel, terminate["user"], terminate["reason"]) == (CANCEL, ADMIN.user, "at once")
    assert NOW < terminate["at"] < terminate["signalledAt"]
    assert seen["stopOrder"] == terminate
    assert [entry["progress"] for _, entry in await history(http, running)] == ["ORDERED", "ORDERED", "SIGNALLED"]


async def test_the_steps_of_a_stop_with_a_final_checkpoint_are_shown(server, submit, shown, http):
    job_id = await submit(tags={"batchq:checkpoints": "true", "batchq:checkpoint-signal": "USR1"})
    await server.runs(job_id)
    order = on.TerminateRequested(reason="at once", user=ADMIN.user, checkpoint=True, keep_checkpoints=False)
    for event in (order, on.StopSignalDelivered(attempt=1), on.CheckpointSeen(attempt=1, name="epoch-7")):
        await server.engine.happens(job_id, event)
    await server.engine.happens(job_id, on.StopForced(reason="now", user="cora"))

    seen = (await shown(job_id))["stopOrder"]

    asked = seen["finalCheckpointRequested"], seen["keepCheckpoints"], seen["finalCheckpoint"]
    assert asked == (True, False, "epoch-7")
    assert seen["checkpointRequestedAt"] < seen["checkpointSeenAt"] < seen["forcedAt"] == seen["killedAt"]
    assert (seen["forcedBy"], seen["user"], seen["reason"]) == ("cora", ADMIN.user, "at once")
    steps = [(entry["progress"], entry["user"], entry.get("checkpoint")) for _, entry in await history(http, job_id)]
    assert steps == [
        ("ORDERED", ADMIN.user, None),
        ("CHECKPOINT_REQUESTED", ADMIN.user, None),
        ("CHECKPOINT_SEEN", ADMIN.user, "epoch-7"),
        ("FORCED", "cora", None),
        ("KILLED", ADMIN.user, None),
    ]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_bulk_stop_names_the_order_that_stands(running, http, dry_run):
    await http.post("TerminateJob", {"jobId": running, "reason": "at once"})

    (line,) = await stop(http, "terminate", jobs=[running], dryRun=dry_run)

    assert (line["outcome"], line["standing"]) == ("STOPPING", TERMINATE)


async def test_a_bulk_cancel_names_the_cancel_that_stands(running, http):
    await http.post("CancelJob", {"jobId": running, "reason": "too hot"})

    (cancel,) = await stop(http, "cancel", jobs=[running])
    (terminate,) = await stop(http, "terminate", jobs=[running], dryRun=True)

    assert (cancel["outcome"], cancel["standing"]) == ("NOT_RETRIED", CANCEL)
    assert cancel["message"] == f"already cancelled since 2026-11-21T12:00:11Z, by {ADMIN.user}"
    assert "standing" not in terminate
