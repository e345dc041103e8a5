"""Paused jobs: the attempt is stopped, and the job is held until it is resumed. training.md 4.3, a scenario a cell."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.enums import Outcome, Status, StopKind
from batchq.domain.ids import child_id
from batchq.domain.stop_request import StopRequest
from batchq.domain.training import MOUNT_POINT
from batchq.errors import Invalid
from tests.support.builders import gang, task
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, LASTING, Script, contained, lasting

EXITS_143 = Script(seconds=60, on_term=143, output=("ready",))
SIGNAL = {"batchq:checkpoints": "true", "batchq:checkpoint-signal": "USR1"}
RESUMES = ("BATCHQ_RESUME_FROM",)
WAIT = timedelta(seconds=30)  # far longer than the scenario
WHOLE = 4000  # all vCPUs of the environment, in thousandths


async def test_a_running_job_is_stopped_and_held_and_resumed(world):
    job = await world.start(EXITS_143)

    await world.pause(job, "others first")

    paused = await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: others first", stop=None)
    (ended,) = paused.attempts
    assert (ended.number, ended.paused, ended.exit_code) == (1, True, 143)
    assert ended.status_reason == "PAUSED: others first"
    assert (paused.hold.reason, paused.hold.paused, paused.max_attempts) == ("others first", True, 2)
    assert await world.engine_calls(job) == ["create", "start", "stop", "remove"]
    await world.resume(job)
    again = await world.wait_for(job, Status.RUNNING, hold=None)
    assert again.attempt.number == 2


async def test_a_paused_job_releases_its_resources(world):
    job = await world.start(EXITS_143, millicpus=WHOLE)
    other = await world.submit(Script(seconds=0), millicpus=WHOLE)

    await world.pause(job)

    await world.wait_for(other, Status.SUCCEEDED)
    await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: not now")


async def test_a_pause_does_not_count_against_the_attempts(world):
    job = await world.submit(lasting(1), attempts=2)
    for number in (1, 2):
        running = await world.wait_for(job, Status.RUNNING)
        assert running.attempt.number == number
        await world.pause(job)
        await world.wait_until(job, lambda job: job.held)
        await world.resume(job)

    await world.finish(job)
    await world.wait_until(job, lambda other_job: other_job.attempt is not None and other_job.attempt.number == 4)
    await world.finish(job)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.EXITED)
    assert [attempt.paused for attempt in done.attempts] == [True, True, False, False]


async def test_a_container_that_ignores_the_signal_is_killed_after_the_grace(world):
    job = await world.start(IGNORES_SIGTERM)

    await world.pause(job)

    paused = await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: not now", exit_codes=[137])
    order = paused.stop_orders[0]
    assert (order.kind, order.attempt, order.killed_at is not None) == (StopKind.PAUSE, 1, True)


async def test_a_job_that_exits_with_0_during_a_pause_is_paused_and_resumed(world):
    job = await world.start(HANDLES_SIGTERM, later=[Script(seconds=0)])

    await world.pause(job)

    paused = await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: not now")
    assert [(attempt.paused, attempt.exit_code) for attempt in paused.attempts] == [(True, 0)]
    await world.resume(job)
    await world.wait_for(job, Status.SUCCEEDED, status_reason=status_reasons.EXITED, hold=None, exit_codes=[0, 0])


async def test_a_job_that_is_starting_is_paused_without_a_container(world):
    job = await world.submit_until("create", Script(seconds=0))

    await world.pause(job)
    world.runtime.release("create")

    paused = await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: not now")
    assert [(attempt.number, attempt.paused) for attempt in paused.attempts] == [(1, True)]
    await world.resume(job)
    done = await world.wait_for(job, Status.SUCCEEDED)
    assert [attempt.number for attempt in done.attempts] == [1, 2]


async def test_a_job_that_is_resumed_while_it_is_pausing_goes_back_to_its_queue(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.pause(job)

    await world.resume(job)

    again = await world.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)
    assert (again.hold, [attempt.paused for attempt in again.attempts]) == (None, [True])


async def test_a_terminate_outranks_a_pause(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.pause(job)

    await world.terminate(job, "no longer needed")

    done = await world.wait_for(
        job, Status.FAILED, status_reason="no longer needed", hold=None, is_terminated=True, exit_codes=[137]
    )
    assert [order.kind for order in done.stop_orders] == [StopKind.PAUSE, StopKind.TERMINATE]
    assert (await world.engine_calls(job)).count("stop") == 1


async def test_force_outranks_a_pause(world):
    job = await world.start(IGNORES_SIGTERM, grace=WAIT)
    await world.pause(job)

    await world.terminate(job, "at once", force=True)

    done = await world.wait_for(job, Status.FAILED, status_reason="at once", hold=None, exit_codes=[137])
    assert done.stop.forced_at is not None


@pytest.mark.parametrize("script", [EXITS_143, HANDLES_SIGTERM], ids=["143", "0"])
async def test_a_cancel_of_a_job_that_is_pausing_ends_it_with_its_attempt(world, script):
    job = await world.start(script, attempts=3)
    await world.pause(job)

    await world.cancel(job, "no longer needed")

    await world.wait_for(job, Status.FAILED, status_reason="no longer needed", hold=None, is_cancelled=True)


async def test_a_job_that_is_being_stopped_or_was_cancelled_cannot_be_paused(world):
    stopping, cancelled = await world.submit(IGNORES_SIGTERM, grace=WAIT), await world.submit(LASTING)
    await world.wait_for_output(stopping, "ready")
    await world.wait_for(cancelled, Status.RUNNING)
    await world.terminate(stopping)
    await world.cancel(cancelled)

    for job in (stopping, cancelled):
        with pytest.raises(Invalid, match="it cannot be paused"):
            await world.pause(job)


async def test_a_repeated_pause_changes_nothing(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.pause(job)
    before = await world.job(job)

    await world.pause(job, "another reason")

    after = await world.job(job)
    assert (after.hold, len(after.stop_orders)) == (before.hold, 1)
    await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: not now")


async def test_a_pause_requests_a_final_checkpoint_from_which_the_next_attempt_continues(world):
    script = lasting(143, output=("ready",), checkpoints=("step-1",), on_request="step-2", prints_environment=RESUMES)
    job = await world.start(script, tags=SIGNAL)

    await world.pause(job)

    paused = await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: not now")
    (order,) = paused.stop_orders
    assert (order.final_checkpoint, order.checkpoint_error, order.killed_at) == ("step-2", None, None)
    assert await world.checkpoint_names(job) == ["step-1", "step-2"]
    await world.resume(job)
    await world.wait_for_output(job, f"{MOUNT_POINT}/step-2")


@pytest.mark.fault("SP29")
async def test_a_server_killed_while_a_pause_waits_for_the_checkpoint_finds_it(world):
    script = lasting(143, output=("ready",), on_request="step-1", request_delay=3)
    job = await world.start(script, tags=SIGNAL)
    await world.pause(job)
    await world.wait_for_signal(job)
    await world.crash()
    await world.wait_for_checkpoint(job, "step-1")

    await world.boot()

    paused = await world.wait_until(job, lambda job: job.held)
    assert [(order.kind, order.final_checkpoint) for order in paused.stop_orders] == [(StopKind.PAUSE, "step-1")]
    assert await world.checkpoint_names(job) == ["step-1"]


async def test_a_task_is_paused_with_all_its_containers(world):
    first, second = contained("first", EXITS_143), contained("second", EXITS_143, essential=False)
    job = await world.submit(task=task(first, second))
    await world.wait_for_output(job, "ready", container_key="0/first")
    await world.wait_for_output(job, "ready", container_key="0/second")

    await world.pause(job)

    paused = await world.wait_for(job, Status.RUNNABLE, status_reason="PAUSED: not now")
    assert [attempt.paused for attempt in paused.attempts] == [True]
    await world.resume(job)
    await world.wait_for(job, Status.RUNNING)


async def test_an_array_is_paused_with_its_active_children(world):
    array = await world.submit(EXITS_143, array_size=3, millicpus=2000)
    children = [child_id(array, index) for index in range(3)]
    for child in children[:2]:
        await world.wait_for_output(child, "ready")

    await world.pause(array)

    for child, attempts in zip(children, (1, 1, 0), strict=True):
        paused = await world.wait_until(child, lambda job: job.held)
        assert (len(paused.attempts), paused.status_reason) == (attempts, "PAUSED: not now")
    await world.resume(array)
    for child in children[:2]:
        await world.wait_for(child, Status.RUNNING)


# ------------------------------------------------------------------------------------------------------------- restarts


@pytest.mark.fault("SP29")
async def test_a_pause_saved_without_an_answer_stands(world):
    job = await world.start(EXITS_143)
    await world.crash_in_commit(world.pause(job))

    await world.boot()
    await world.pause(job, "again")

    await is_held_once(world, job)


@pytest.mark.fault("SP29")
async def test_an_attempt_that_ends_while_the_server_is_down_ends_held_once(world):
    job = await world.start(EXITS_143)
    await world.pause(job)
    await world.wait_for_call(job, "stop")
    await world.crash()
    await world.sleep(3)

    await world.boot()

    await is_held_once(world, job)


@pytest.mark.fault("SP29")
async def test_a_signal_sent_and_not_saved_before_the_server_died_ends_in_one_hold(world):
    job = await world.start(IGNORES_SIGTERM)
    world.runtime.hold("stop")
    await world.pause(job)
    await world.wait_for_call(job, "stop")
    await world.crash_after("stop")

    await world.boot()

    await is_held_once(world, job)


@pytest.mark.fault("SP29")
async def test_a_container_removed_while_the_server_is_down_is_a_paused_attempt(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.pause(job)
    await world.crash()
    await world.machine.remove((await world.job(job)).tag)

    await world.boot()

    await is_held_once(world, job)


async def is_held_once(world, job):
    """Check that the attempt is listed once and the job is held, also after another restart, and can be resumed."""
    paused = await world.wait_until(job, lambda other_job: other_job.held)
    assert [(attempt.number, attempt.paused) for attempt in paused.attempts] == [(1, True)]
    assert (paused.times_held, [order.kind for order in paused.stop_orders]) == (1, [StopKind.PAUSE])
    await world.restart()
    await world.wait_until_idle()
    assert await world.job(job) == paused
    assert await world.statuses(job) == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "RUNNABLE"]
    await world.resume(job)
    again = await world.wait_for(job, Status.RUNNING)
    assert (again.attempt.number, again.hold) == (2, None)


WRITES = lasting(output=("ready",), checkpoints=("step-1",), on_request="final")


async def test_a_terminate_that_takes_over_a_pause_keeps_the_final_checkpoint_of_the_pause(world):
    job = await world.start(WRITES, tags=SIGNAL)
    (await world.checkpoints.directory(job) / "metrics.jsonl").write_text("{}\n")
    await world.pause(job)
    await world.wait_for_checkpoint(job, "final")
    await world.sleep(1)  # the checkpoint is older than the order, and not complete yet

    await world.terminate(job, keep_checkpoints=False)

    done = await world.wait_for(job, Status.FAILED, is_terminated=True)
    await world.wait_until_idle()
    assert done.stop.final_checkpoint == "final"
    assert sorted(path.name for path in (await world.checkpoints.directory(job)).iterdir()) == [
        "final",
        "metrics.jsonl",
    ]


async def test_a_terminate_that_takes_over_a_pause_applies_its_grace_period(world):
    job = await world.start(IGNORES_SIGTERM, grace=timedelta(hours=1))
    await world.pause(job)
    await world.wait_for_signal(job)

    await world.terminate(job, grace=timedelta(seconds=1))

    done = await world.wait_for(job, Status.FAILED, exit_codes=[137])
    assert done.stop.longest == timedelta(seconds=1)
    assert (await world.engine_calls(job)).count("stop") == 1


async def test_a_terminate_that_takes_over_the_pause_of_a_task_applies_to_each_container(world):
    endless = replace(IGNORES_SIGTERM, seconds=None)
    first = contained("app", endless, stop_timeout=timedelta(hours=1))
    job = await world.submit(task=task(first, contained("side", endless)), grace=timedelta(hours=1))
    for key in ("0/app", "0/side"):
        await world.wait_for_output(job, "ready", key)
    await world.wait_until(job, lambda job: all(each.started_at is not None for each in job.attempt.containers))
    await world.pause(job)
    await world.wait_until(
        job, lambda other_job: all(each.next_step_at is not None for each in other_job.attempt.containers)
    )

    await world.terminate(job, grace=timedelta(seconds=1))

    done = await world.wait_for(job, Status.FAILED, is_terminated=True)
    assert [container.exit_code for container in done.attempts[0].containers] == [137, 137]


async def test_a_terminate_that_takes_over_a_pause_sends_its_own_signal(world):
    script = lasting(None, output=("ready",), request_exit=7)
    job = await world.start(script, tags={"batchq:checkpoints": "true"}, grace=timedelta(hours=1))
    await world.pause(job)
    await world.wait_for_signal(job)

    await world.terminate(job, signal="SIGINT")

    await world.wait_for(job, Status.FAILED, is_terminated=True, exit_codes=[7])
    assert (await world.engine_calls(job)).count("stop") == 2


async def test_a_terminate_that_takes_over_a_pause_before_the_stop_signal_replaces_that_signal(world):
    script = lasting(None, output=("ready",), on_request="final", request_delay=2, request_exit=7)
    job = await world.start(script, tags=SIGNAL, grace=timedelta(hours=1))
    await world.pause(job)
    await world.wait_for_signal(job)

    await world.terminate(job, signal="SIGQUIT", grace=timedelta(seconds=9))

    done = await world.wait_for(job, Status.FAILED, is_terminated=True, exit_codes=[7])
    assert [step.signal for step in done.stop.steps] == ["SIGUSR1", "SIGQUIT"]
    assert done.stop.steps[-1].wait == timedelta(seconds=9)


async def test_the_final_checkpoint_of_a_paused_task_is_found_after_its_end(world):
    script = lasting(output=("ready",), on_request="final", request_exit=3)
    job = await world.submit(task=task(contained("app", script)), tags=SIGNAL)
    await world.wait_for_output(job, "ready", "0/app")
    await world.wait_for(job, Status.RUNNING)

    await world.pause(job)

    paused = await world.wait_until(job, lambda job: job.held and job.stop_orders[0].final_checkpoint is not None)
    assert (paused.stop_orders[0].final_checkpoint, paused.stop_orders[0].checkpoint_error) == ("final", None)


@pytest.mark.parametrize("seconds", [-3600, 3600])
async def test_the_next_attempt_continues_from_the_final_checkpoint_although_the_clock_was_set(world, seconds):
    job = await world.start(WRITES, later=(lasting(prints_environment=RESUMES),), tags=SIGNAL)
    world.step_disk_clock(seconds)
    await world.pause(job)
    paused = await world.wait_until(job, lambda job: job.held)
    assert paused.stop_orders[0].final_checkpoint == "final"

    await world.resume(job)

    await world.wait_until(job, lambda other_job: other_job.attempt is not None and other_job.attempt.number == 2)
    await world.wait_for_output(job, f"{MOUNT_POINT}/final")


async def test_the_next_attempt_continues_from_the_final_checkpoint_although_the_order_of_checkpoints_is_lost(world):
    job = await world.start(WRITES, later=(lasting(prints_environment=RESUMES),), tags=SIGNAL)
    world.step_disk_clock(-3600)
    await world.pause(job)
    await world.wait_until(job, lambda job: job.held)
    folder = await world.checkpoints.directory(job)
    folder.with_name(f"{job}.marks").unlink()

    await world.resume(job)

    await world.wait_until(job, lambda other_job: other_job.attempt is not None and other_job.attempt.number == 2)
    await world.wait_for_output(job, f"{MOUNT_POINT}/final")


async def test_a_pause_before_the_start_is_known_continues_from_the_last_checkpoint_although_the_clock_is_set(world):
    script = replace(WRITES, term_checkpoint="last", term_delay=1)
    job = await world.submit_until("start", script, later=(lasting(prints_environment=RESUMES),), tags=SIGNAL)
    world.runtime.lost_replies["start"] = 1
    world.runtime.hold("create")
    world.runtime.release("start")
    await world.wait_for_call(job, "create", times=2)
    await world.wait_for_checkpoint(job, "step-1")
    world.step_disk_clock(-3600)
    await world.pause(job)
    world.runtime.release("create")
    await world.wait_until(job, lambda job: job.held)

    await world.resume(job)

    await world.wait_until(job, lambda other_job: other_job.attempt is not None and other_job.attempt.number == 2)
    await world.wait_for_output(job, f"{MOUNT_POINT}/last")


async def test_the_next_attempt_continues_from_a_checkpoint_that_was_not_complete_when_the_final_one_was_found(world):
    job = await world.start(WRITES, later=(lasting(prints_environment=RESUMES),), tags=SIGNAL)
    await world.pause(job)
    await world.wait_for_checkpoint(job, "final")
    await world.sleep(1)
    await world.write_checkpoint(job, "later")
    await world.wait_until(job, lambda job: job.held)

    await world.resume(job)

    await world.wait_until(job, lambda other_job: other_job.attempt is not None and other_job.attempt.number == 2)
    await world.wait_for_output(job, f"{MOUNT_POINT}/later")


async def test_the_next_attempt_continues_from_a_checkpoint_that_was_written_after_the_final_one(world):
    script = replace(WRITES, term_checkpoint="last", term_delay=1)
    job = await world.start(script, later=(lasting(prints_environment=RESUMES),), tags=SIGNAL)
    await world.pause(job)
    await world.wait_until(job, lambda job: job.held)

    await world.resume(job)

    await world.wait_until(job, lambda other_job: other_job.attempt is not None and other_job.attempt.number == 2)
    await world.wait_for_output(job, f"{MOUNT_POINT}/last")


@pytest.mark.parametrize("how", [{"grace": timedelta(seconds=1)}, {"force": True}], ids=["grace", "force"])
async def test_a_node_that_is_terminated_while_the_job_pauses_is_stopped_alone_and_recorded(world, how):
    leader = contained("app", lasting(output=("ready",), on_request="final", request_delay=6))
    other = contained("app", replace(IGNORES_SIGTERM, seconds=None), stop_timeout=timedelta(hours=1))
    job = await world.submit(nodes=gang(2, leader=task(leader), each=task(other)), tags=SIGNAL)
    for key in ("0/app", "1/app"):
        await world.wait_for_output(job, "ready", key)
    await world.wait_until(job, lambda job: all(each.started_at is not None for each in job.attempt.containers))
    await world.pause(job)

    await world.terminate(f"{job}#1", "this one", **how)

    paused = await world.wait_until(job, lambda other_job: other_job.held)
    main, worker = paused.attempts[0].containers
    assert (main.terminated_by, worker.terminated_by.reason) == (None, "this one")
    assert worker.exit_code == 137


async def test_a_container_that_is_terminated_after_a_pause_stopped_it_is_recorded_with_its_grace_period(world):
    app = contained("app", replace(IGNORES_SIGTERM, seconds=None))
    side = contained("side", replace(IGNORES_SIGTERM, seconds=None), essential=False, stop_timeout=timedelta(hours=1))
    job = await world.submit(task=task(app, side))
    for key in ("0/app", "0/side"):
        await world.wait_for_output(job, "ready", key)
    await world.wait_until(job, lambda job: all(each.started_at is not None for each in job.attempt.containers))
    await world.pause(job)

    order = StopRequest(kind=StopKind.TERMINATE, reason="this one", grace=timedelta(seconds=1))
    (found,) = await world.outcomes(order, f"{job}.side")
    assert (found.outcome, found.note) == (Outcome.CONTAINER_STOPPING, "")

    paused = await world.wait_until(job, lambda other_job: other_job.held)
    _, ended = paused.attempts[0].containers
    assert (ended.terminated_by.reason, ended.exit_code) == ("this one", 137)
