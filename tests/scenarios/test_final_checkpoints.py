"""A job that is terminated with a final checkpoint writes it before it is stopped."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.enums import Status, StopProgress
from batchq.domain.training import MOUNT_POINT
from batchq.errors import RuntimeUnknown, RuntimeUnreachable, StoreFailed
from batchq.store.checkpoint_files import READ_TIMEOUT
from tests.support.builders import task
from tests.support.scripts import Script, contained, lasting

CHECKPOINTS = {"batchq:checkpoints": "true"}
SIGNAL = CHECKPOINTS | {"batchq:checkpoint-signal": "USR1"}
SHORT = {"batchq:checkpoint-timeout": "2"}
#: It writes `final` after the checkpoint signal.
WRITES = lasting(output=("ready",), checkpoints=("step-1",), on_request="final")
#: It also exits a second after the stop signal, so that the delivery is stored before the exit.
EXITS_LATER = replace(WRITES, term_delay=1)


async def running(world, script=WRITES, tags=SIGNAL, **fields):
    return await world.start(script, tags=tags, **fields)


async def test_the_checkpoint_signal_is_sent_first_and_the_stop_signal_after_the_checkpoint(world):
    job = await running(world, EXITS_LATER)

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert (done.stop.final_checkpoint, done.stop.checkpoint_error) == ("final", None)
    assert await world.checkpoint_names(job) == ["step-1", "final"]
    assert done.attempts[-1].exit_code == 0
    assert done.stop.checkpoint_requested_at <= done.stop.checkpoint_seen_at <= done.stop.signalled_at
    assert done.stop.killed_at is None


async def test_without_a_declared_signal_the_stop_signal_is_the_request(world):
    script = lasting(output=("ready",), checkpoints=("step-1",), term_checkpoint="final", term_delay=3)
    job = await running(world, script, CHECKPOINTS)

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert (done.stop.final_checkpoint, done.stop.killed_at) == ("final", None)


@pytest.mark.fault("CK08")
async def test_an_unfinished_checkpoint_is_none_and_is_deleted(world):
    script = lasting(output=("ready",), checkpoints=("step-1",), on_request="final.tmp")
    job = await running(world, script, SIGNAL | SHORT)

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert (done.stop.final_checkpoint, done.stop.checkpoint_error) == (None, "none after 2 s")
    assert [path.name for path in (await world.checkpoints.directory(job)).iterdir()] == ["step-1"]


async def test_a_program_that_the_signal_ends_writes_its_checkpoint_before(world):
    script = lasting(output=("ready",), on_request="final", request_exit=3)
    job = await running(world, script)

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert (done.stop.final_checkpoint, done.attempts[-1].exit_code) == ("final", 3)
    history = [
        other_job.status if other_job.stop is None else other_job.stop.progress
        for other_job in await world.store.history(job)
    ]
    assert history.index(StopProgress.CHECKPOINT_SEEN) < history.index(Status.FAILED)


@pytest.mark.fault("CK08")
async def test_a_program_that_dies_of_the_signal_has_no_final_checkpoint(world):
    job = await running(world, lasting(output=("ready",), request_exit=138))

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert (done.stop.final_checkpoint, done.attempts[-1].exit_code) == (None, 138)
    assert done.stop.checkpoint_error is not None


async def test_a_clean_stop_deletes_the_directory(world):
    job = await running(world)

    await world.terminate(job, keep_checkpoints=False)

    await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert await world.checkpoints.directory(job) is None


async def test_checkpoints_from_after_the_final_one_are_kept_too(world):
    job = await running(world, replace(EXITS_LATER, term_checkpoint="last"))

    await world.terminate(job, checkpoint=True, keep_checkpoints=False)

    done = await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert done.stop.final_checkpoint == "final"
    assert await world.checkpoint_names(job) == ["final", "last"]


async def test_the_newest_checkpoint_is_kept_if_the_final_one_that_was_requested_is_missing(world):
    script = lasting(output=("ready",), checkpoints=("step-1", "step-2"), request_exit=7)
    job = await running(world, script)

    await world.terminate(job, checkpoint=True, keep_checkpoints=False)

    done = await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert (done.stop.final_checkpoint, done.stop.checkpoint_error) == (None, "none when the container ended")
    assert await world.checkpoint_names(job) == ["step-2"]


async def test_a_queued_job_that_does_not_keep_its_checkpoints_loses_those_of_its_attempts(world):
    job = await running(world)
    await world.pause(job)
    await world.wait_for(job, Status.RUNNABLE)
    assert await world.checkpoint_names(job) == ["step-1", "final"]

    await world.terminate(job, keep_checkpoints=False)

    await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert await world.checkpoints.directory(job) is None


async def test_a_paused_job_keeps_its_newest_checkpoint_if_the_order_names_a_final_one(world):
    job = await running(world)
    await world.pause(job)
    await world.wait_for(job, Status.RUNNABLE)

    await world.terminate(job, checkpoint=True, keep_checkpoints=False)

    await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert await world.checkpoint_names(job) == ["final"]


async def test_a_job_between_two_starts_keeps_its_newest_checkpoint_if_the_order_names_a_final_one(world):
    job = await running(world, lasting(1, output=("ready",), checkpoints=("step-1", "step-2")), attempts=2)
    await world.wait_for_checkpoint(job, "step-2")
    world.runtime.hold("create")
    await world.finish(job)
    await world.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)

    await world.terminate(job, checkpoint=True, keep_checkpoints=False)
    world.runtime.release("create")

    await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert await world.checkpoint_names(job) == ["step-2"]


async def test_the_timeout_of_a_job_requests_a_final_checkpoint(world):
    job = await running(world, limit=3)

    done = await world.wait_for(job, Status.FAILED)

    assert done.stop.final_checkpoint == "final"


async def test_a_checkpoint_signal_without_an_answer_is_not_repeated_while_its_checkpoint_is_awaited(world):
    job = await running(world, lasting(output=("ready",), on_request="final", request_delay=4))
    world.runtime.lost_replies["stop"] = 1

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert done.stop.final_checkpoint == "final"
    assert (await world.engine_calls(job)).count("stop") == 2  # USR1 and SIGTERM


async def test_a_checkpoint_signal_that_was_lost_is_repeated_after_the_timeout(world):
    job = await running(world, tags=SIGNAL | SHORT)
    world.runtime.refusals["stop"] = [RuntimeUnknown("no reply")]

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert done.stop.final_checkpoint == "final"
    assert done.stop.checkpoint_requested_at - done.stop.ordered_at >= timedelta(seconds=2)


async def test_a_checkpoint_signal_that_was_not_sent_is_repeated_at_once(world):
    job = await running(world, EXITS_LATER)
    world.runtime.refusals["stop"] = [RuntimeUnreachable("the engine is away")]

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert done.stop.final_checkpoint == "final"
    assert done.stop.signalled_at - done.stop.ordered_at < timedelta(seconds=60)


@pytest.mark.fault("CK03")
async def test_a_job_whose_directory_cannot_be_read_is_stopped_in_time(world, monkeypatch):
    job = await running(world, tags=SIGNAL | SHORT)
    with monkeypatch.context() as disk:
        disk.setattr(world.checkpoints, "entries", fail)
        await world.terminate(job, checkpoint=True, keep_checkpoints=False)

        done = await world.wait_for(job, Status.FAILED)
        await world.wait_until_idle()

    assert (done.stop.final_checkpoint, done.stop.checkpoint_error) == (None, "none after 2 s")
    assert await world.checkpoint_names(job) == ["step-1", "final"]


@pytest.mark.fault("CK13")
async def test_a_disk_that_hangs_delays_each_signal_and_the_end_by_one_read(simulated, monkeypatch):
    job = await running(simulated, replace(EXITS_LATER, on_request=None), SIGNAL | SHORT)

    async def hang(*_, **__):
        await simulated.clock.sleep(READ_TIMEOUT)
        raise StoreFailed("the disk does not answer")

    with monkeypatch.context() as disk:
        for call in ("entries", "mark", "metrics"):
            disk.setattr(simulated.checkpoints, call, hang)
        await simulated.terminate(job, checkpoint=True)
        done = await simulated.wait_for(job, Status.FAILED, exit_codes=[0])

    read, stop, slack = timedelta(seconds=READ_TIMEOUT), done.stop, timedelta(seconds=0.1)
    assert stop.checkpoint_requested_at - stop.ordered_at <= read + slack
    assert stop.signalled_at - stop.checkpoint_requested_at <= timedelta(seconds=2) + read + slack
    assert simulated.clock.now() - done.stopped_at <= read + slack, "the end is reported late"


@pytest.mark.fault("CK03")
async def test_a_start_waits_until_the_directory_can_be_written(world, monkeypatch):
    with monkeypatch.context() as disk:
        disk.setattr(world.checkpoints, "prepare", fail)
        job = await world.submit(Script(seconds=0), tags=CHECKPOINTS)
        await world.wait_for(job, Status.STARTING)
        await world.sleep(2)
        assert not [call for _, call in world.runtime.all_calls if call == "create"]

    await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])


@pytest.mark.fault("CK12")
@pytest.mark.parametrize("seconds", [-3600, -1, 3600])
async def test_a_final_checkpoint_is_found_after_the_clock_of_the_disk_was_set(world, seconds):
    job = await running(world)
    world.step_disk_clock(seconds)

    await world.terminate(job, checkpoint=True, keep_checkpoints=False)

    done = await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert (done.stop.final_checkpoint, done.stop.checkpoint_error) == ("final", None)
    assert await world.checkpoint_names(job) == ["final"]


@pytest.mark.fault("CK12")
@pytest.mark.parametrize("seconds", [-3600, -1, 3600])
async def test_a_final_checkpoint_is_found_although_the_clock_is_set_while_it_is_awaited(world, seconds):
    job = await running(world, lasting(output=("ready",), checkpoints=("step-1",), on_request="final", request_delay=4))
    await world.terminate(job, checkpoint=True, keep_checkpoints=False)
    await world.wait_for_signal(job)

    world.step_disk_clock(seconds)

    done = await world.wait_for(job, Status.FAILED)
    await world.wait_until_idle()
    assert done.stop.final_checkpoint == "final"
    assert await world.checkpoint_names(job) == ["final"]


async def test_a_checkpoint_from_between_the_order_and_the_signal_is_not_the_final_one(world):
    job = await running(world, lasting(output=("ready",), on_request="final", request_delay=4))
    await world.crash_in_commit(world.terminate(job, checkpoint=True))
    await world.write_checkpoint(job, "automatic")

    await world.boot()

    done = await world.wait_for(job, Status.FAILED)
    assert done.stop.final_checkpoint == "final"


@pytest.mark.fault("CK11")
async def test_a_user_above_0_without_capabilities_writes_checkpoints(world):
    script = lasting(output=("ready",), checkpoints=("step-1",), on_request="final")
    world.engine.accounts.container_policy = lambda _: ContainerPolicy(root=False, host_network=True)
    job = await running(world, script, user="1000:1000")

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert done.stop.final_checkpoint == "final"
    assert await world.checkpoint_names(job) == ["step-1", "final"]


async def fail(*_, **__):
    raise StoreFailed("input/output error")


SHOWN = ("BATCHQ_CHECKPOINT_DIR", "BATCHQ_RESUME_FROM")


async def test_a_container_finds_the_directory_in_its_environment(world):
    job = await world.submit(lasting(prints_environment=SHOWN), tags=CHECKPOINTS)

    await world.wait_for_output(job, MOUNT_POINT)
    assert await world.checkpoints.directory(job) is not None


async def test_a_job_without_checkpoints_has_no_directory(world):
    job = await world.submit(Script(seconds=0))

    await world.wait_for(job, Status.SUCCEEDED)
    assert await world.checkpoints.directory(job) is None


async def test_the_next_attempt_resumes_from_the_newest_checkpoint(world):
    first = Script(seconds=0, exit_code=1, checkpoints=("step-1", "step-2"))
    second = lasting(prints_environment=SHOWN)

    job = await world.submit(first, later=(second,), tags=CHECKPOINTS, attempts=2)

    await world.wait_until(job, lambda job: job.attempt is not None and job.attempt.number > 1)
    await world.wait_for_output(job, f"{MOUNT_POINT}/step-2")
    assert [entry.name for entry in await world.checkpoints.entries(job, ended=True)] == ["step-1", "step-2"]


@pytest.mark.fault("CK12")
@pytest.mark.parametrize("seconds", [0, -3600])
async def test_the_next_attempt_of_a_task_resumes_from_what_a_stopped_container_wrote_last(world, seconds):
    app = contained("app", lasting(1, prints_environment=SHOWN))
    writes = lasting(checkpoints=("step-1",), term_checkpoint="last", term_delay=1)
    job = await world.submit(task=task(app, contained("side", writes)), tags=CHECKPOINTS, attempts=2)
    await world.wait_for_checkpoint(job, "step-1")
    world.step_disk_clock(seconds)

    await world.finish(job, container_key="0/app")

    await world.wait_until(job, lambda job: job.attempt is not None and job.attempt.number == 2)
    await world.wait_for_output(job, f"{MOUNT_POINT}/last", "0/app")


async def test_a_later_container_of_a_task_does_not_continue_from_a_checkpoint_that_is_being_written(simulated):
    first = contained("app", Script(seconds=1, checkpoints=("step-1",)))
    prints = Script(seconds=0, output=("ready",), prints_environment=SHOWN)
    later = contained("later", prints, after={"app": "START"})
    job = await simulated.submit(task=task(first, later), tags=CHECKPOINTS)

    await simulated.wait_for(job, Status.SUCCEEDED)

    assert await simulated.output(job, container_key="0/later") == ["ready", MOUNT_POINT]
    assert await simulated.checkpoint_names(job) == ["step-1"]
