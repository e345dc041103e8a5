"""CancelTrainingJob: every status of a job with every flag of the request."""

from datetime import timedelta

import pytest

from batchq.domain.enums import Status
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, Script, lasting

LONG = timedelta(minutes=10)
CHECKPOINTS = {"batchq:checkpoints": "true"}
SIGNAL = CHECKPOINTS | {"batchq:checkpoint-signal": "USR1"}
#: It writes `epoch-7` after the checkpoint signal.
WRITES = lasting(output=("ready",), checkpoints=("epoch-6",), on_request="epoch-7")
#: It ignores the checkpoint signal.
WRITES_NONE = lasting(output=("ready",), checkpoints=("epoch-6",))
FLAGS = ({}, {"createFinalCheckpoint": True}, {"force": True})
flags = pytest.mark.parametrize("flags", FLAGS, ids=lambda value: next(iter(value), "plain"))


async def ended(world, training, job):
    """The description of a cancelled job that has ended."""
    await world.wait_for(job, Status.FAILED)
    shown = await training.show(job)
    assert shown["status"] == "cancelled"
    return shown["cancellationDetails"]


@flags
async def test_a_queued_job_is_cancelled_at_once(world, training, flags):
    holder, job = await world.submit_behind(HANDLES_SIGTERM, tags=CHECKPOINTS)

    answer = await training.cancel(job, reason="val_loss flat", **flags)

    details = answer["cancellationDetails"]
    assert (answer.status, answer["status"]) == (200, "cancelled")
    assert (details["reason"], details["resourcesReleased"]) == ("val_loss flat", True)
    assert (details["finalCheckpointRequested"], details["finalCheckpointCreated"]) == (False, False)
    assert answer["finalMetrics"] == dict.fromkeys(("finalEpoch", "finalStep", "finalLoss", "finalAccuracy")) | {
        "trainingDuration": "0m"
    }
    assert answer["costSummary"] is None
    await world.finish(holder, Status.SUCCEEDED)
    assert await world.engine_calls(job) == []


@flags
async def test_a_paused_job_is_cancelled_at_once(world, training, flags):
    job = await world.submit_held(paused=True)
    assert (await training.show(job))["status"] == "paused"

    answer = await training.cancel(job, **flags)

    assert (answer.status, answer["status"]) == (200, "cancelled")
    assert answer["cancellationDetails"]["reason"] == f"Cancelled by {world.caller.user}"
    assert await world.engine_calls(job) == []


@pytest.mark.parametrize("flags", [{}, {"createFinalCheckpoint": True}], ids=["plain", "createFinalCheckpoint"])
async def test_the_pause_of_a_job_turns_into_its_cancel(world, training, flags):
    script = lasting(output=("ready",), on_request="epoch-7", request_delay=5)
    job = await world.start(script, tags=SIGNAL)
    paused = await training.ask("POST", f"/{job}/pause")

    answer = await training.cancel(job, reason="enough", **flags)

    assert (paused["status"], answer.status, answer["status"]) == ("pausing", 200, "cancelling")
    details = await ended(world, training, job)
    assert (details["reason"], details["finalCheckpointCreated"]) == ("enough", True)


@pytest.mark.parametrize("before", [None, "pause", "cancel"])
async def test_force_kills_a_job_at_once_also_while_it_is_stopped(world, training, before):
    job = await world.start(IGNORES_SIGTERM, grace=LONG)
    if before is not None:
        await training.ask("POST", f"/{job}/{before}", {"reason": "the first"})
    world.runtime.hold("kill")

    answer = await training.cancel(job, reason="at once", force=True)

    assert (answer.status, answer["status"]) == (200, "cancelling")
    assert answer["cancellationDetails"]["forced"] is True
    world.runtime.release("kill")
    details = await ended(world, training, job)
    assert (details["reason"], details["forced"]) == ("the first" if before == "cancel" else "at once", True)


@flags
async def test_the_start_of_an_initializing_job_is_abandoned(world, training, flags):
    job = await world.submit_until("create", HANDLES_SIGTERM, tags=CHECKPOINTS)
    assert (await training.show(job))["status"] == "initializing"

    answer = await training.cancel(job, **flags)
    world.runtime.release("create")

    assert (answer.status, answer["status"]) == (200, "cancelling")
    details = await ended(world, training, job)
    assert details["finalCheckpointCreated"] is False
    assert "start" not in await world.engine_calls(job)


async def test_a_running_job_gets_the_stop_signal(world, training):
    job = await world.start(HANDLES_SIGTERM, attempts=3)
    assert (await training.show(job))["status"] == "running"
    world.runtime.hold("stop")

    answer = await training.cancel(job, reason="enough")

    assert (answer.status, answer["status"]) == (200, "cancelling")
    assert answer["cancellationDetails"]["resourcesReleased"] is False
    world.runtime.release("stop")
    details = await ended(world, training, job)
    assert (details["resourcesReleased"], details["forced"]) == (True, False)
    assert details["endedAt"] >= details["cancelledAt"]
    assert await world.engine_calls(job) == ["create", "start", "stop", "remove"]


async def test_the_answer_waits_for_the_end_of_the_job_if_the_client_prefers_that(world, training):
    job = await world.start(HANDLES_SIGTERM)

    answer = await training.ask("POST", f"/{job}/cancel", {}, Prefer="respond-async, wait=60")

    assert (answer.status, answer["status"]) == (200, "cancelled")
    assert answer["cancellationDetails"]["resourcesReleased"] is True
    assert answer.headers["Preference-Applied"] == "wait=60"


async def test_an_answer_that_waited_in_vain_shows_the_job_as_it_is(world, training):
    job = await world.start(IGNORES_SIGTERM, grace=LONG)

    answer = await training.ask("POST", f"/{job}/cancel", {}, Prefer="wait=1")

    assert (answer.status, answer["status"]) == (200, "cancelling")


async def test_a_running_job_writes_a_final_checkpoint_first(world, training):
    job = await world.start(WRITES, tags=SIGNAL)
    world.runtime.hold("stop")

    answer = await training.cancel(job, createFinalCheckpoint=True)
    world.runtime.release("stop")

    details = answer["cancellationDetails"]
    assert (answer["status"], details["finalCheckpointRequested"], details["finalCheckpointId"]) == (
        "cancelling",
        True,
        None,
    )
    details = await ended(world, training, job)
    assert (details["finalCheckpointCreated"], details["finalCheckpointError"]) == (True, None)
    assert details["checkpointDeadline"] is None
    final = await training.ask("GET", f"/{job}/checkpoints/{details['finalCheckpointId']}")
    assert (final["name"], final["epoch"], final["type"], final["complete"]) == ("epoch-7", 7, "final", True)
    assert [checkpoint["name"] for checkpoint in (await training.show(job))["checkpoints"]] == ["epoch-7", "epoch-6"]


async def test_a_final_checkpoint_that_does_not_come_does_not_stop_the_cancel(world, training):
    job = await world.start(WRITES_NONE, tags=SIGNAL | {"batchq:checkpoint-timeout": "2"})

    await training.cancel(job, createFinalCheckpoint=True)

    details = await ended(world, training, job)
    assert (details["finalCheckpointCreated"], details["finalCheckpointId"]) == (False, None)
    assert details["finalCheckpointError"] == "none after 2 s"


async def test_the_answer_shows_until_when_a_final_checkpoint_is_waited_for(world, training):
    job = await world.start(WRITES_NONE, tags=SIGNAL)
    await training.cancel(job, createFinalCheckpoint=True)
    await world.wait_for_signal(job)

    repeated = await training.cancel(job)

    assert repeated["cancellationDetails"]["checkpointDeadline"] > repeated["cancellationDetails"]["cancelledAt"]
    await training.cancel(job, force=True)
    details = await ended(world, training, job)
    assert (details["forced"], details["finalCheckpointCreated"]) == (True, False)


@pytest.mark.parametrize(
    ("members", "kept"),
    [
        ({"preserveCheckpoints": False, "createFinalCheckpoint": True}, ["epoch-7"]),
        ({"preserveCheckpoints": False}, []),
        ({"createFinalCheckpoint": True}, ["epoch-6", "epoch-7"]),
        ({}, ["epoch-6"]),
    ],
    ids=", ".join,
)
async def test_checkpoints_are_kept_as_requested(world, training, members, kept):
    job = await world.start(WRITES, tags=SIGNAL)

    await training.cancel(job, **members)

    await ended(world, training, job)
    await world.wait_until_idle()
    assert await world.checkpoint_names(job) == kept


async def test_a_repeated_cancel_changes_nothing(world, training):
    job = await world.start(IGNORES_SIGTERM, grace=LONG, tags=CHECKPOINTS)
    first = await training.cancel(job, reason="the first")

    again = await training.cancel(job, reason="the second", createFinalCheckpoint=True, preserveCheckpoints=False)

    assert again.status == 200
    assert again["cancellationDetails"] == first["cancellationDetails"]


@flags
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_a_job_that_has_ended_cannot_be_cancelled(world, training, status, flags):
    job = await world.submit(Script(seconds=0, exit_code=1) if status == "failed" else Script(seconds=0))
    if status == "cancelled":
        await training.cancel(job, reason="the first")
    before = await world.wait_for(job, Status.SUCCEEDED if status == "completed" else Status.FAILED)

    answer = await training.cancel(job, reason="the second", **flags)

    assert (answer.status, answer["error"], answer["code"]) == (409, "STATE_CONFLICT", 409)
    assert answer["details"]["current_state"] == status
    assert await world.job(job) == before


@pytest.mark.parametrize(("tags", "force"), [(CHECKPOINTS, True), ({}, False)], ids=["with force", "no directory"])
async def test_a_final_checkpoint_that_is_refused_changes_nothing(world, training, tags, force):
    job = await world.start(tags=tags)

    answer = await training.cancel(job, force=force, createFinalCheckpoint=True)

    assert (answer.status, answer["error"]) == (422, "SEMANTIC_ERROR")
    assert (await world.job(job)).stop is None


async def test_a_job_that_its_time_limit_stops_is_not_cancelled(world, training):
    job = await world.submit(IGNORES_SIGTERM, limit=1, grace=timedelta(seconds=5))
    await world.wait_for_call(job, "stop")

    answer = await training.cancel(job)

    assert (answer.status, answer["details"]["current_state"]) == (409, "running")
    await world.wait_for(job, Status.FAILED)
    assert (await training.show(job))["status"] == "failed"


async def test_an_array_is_not_cancelled_as_a_whole(world, training):
    array = await world.submit(array_size=2)

    answer = await training.cancel(array)

    assert (answer.status, answer["error"]) == (422, "SEMANTIC_ERROR")
    await world.wait_for(array, Status.SUCCEEDED)
    assert (await training.show(f"{array}:1"))["status"] == "completed"
