"""The server is killed while it stops a job. faults.md 6.2."""

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.errors import StoreFailed
from tests.support.containers import over
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, lasting
from tests.support.world import GRACE


@pytest.mark.fault("SP01", "SP02")
async def test_a_terminate_saved_without_an_answer_stands_and_may_be_repeated(world):
    job = await world.start(HANDLES_SIGTERM)
    await world.crash_in_commit(world.terminate(job, "stop it"))
    assert "stop" not in [what for _, what in world.runtime.all_calls]

    await world.boot()
    await world.terminate(job, "again")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[0])
    assert (await world.engine_calls(job)).count("stop") == 1


@pytest.mark.fault("SP03")
async def test_a_signal_sent_and_not_saved_is_sent_again_and_starts_the_grace_period(world):
    job = await world.start(IGNORES_SIGTERM)
    world.runtime.hold("stop")
    await world.terminate(job, "stop it")
    await world.wait_for_call(job, "stop")
    await world.crash_after("stop")
    booted = world.clock.now()

    await world.boot()

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert (await world.engine_calls(job)).count("stop") == 2
    assert GRACE <= done.stopped_at - booted < GRACE + world.slack


@pytest.mark.fault("SP04")
async def test_a_grace_period_that_ended_without_a_server_is_over_at_once(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.terminate(job, "stop it")
    await world.wait_for_signal(job)
    await world.crash()
    await world.sleep(GRACE.total_seconds() + 1)
    booted = world.clock.now()

    await world.boot()

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert done.stopped_at - booted < world.slack
    assert [call for call in await world.engine_calls(job) if call in {"stop", "kill"}] == ["stop", "kill"]


@pytest.mark.fault("SP05")
async def test_a_kill_that_was_not_saved_ends_the_job_as_it_happened(world):
    job = await world.start(IGNORES_SIGTERM, attempts=3)
    tag = (await world.job(job)).tag
    world.runtime.hold("kill")
    await world.terminate(job, "stop it")
    await world.wait_for_call(job, "kill")
    world.store.failing = True
    world.runtime.release("kill")
    await over(world.machine, tag)
    await world.crash()
    world.store.failing = False

    await world.boot()

    await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])


async def test_a_kill_that_was_saved_and_not_sent_is_sent_at_the_restart(world):
    job = await world.start(IGNORES_SIGTERM)
    world.runtime.hold("kill")
    await world.terminate(job, "stop it")
    await world.wait_for_call(job, "kill")
    await world.crash()
    world.runtime.release("kill")
    booted = world.clock.now()

    await world.boot()

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert done.stopped_at - booted < world.slack


@pytest.mark.fault("TM02")
async def test_a_timeout_that_passed_without_a_server_is_applied_once(world):
    world.runtime.hold("stop")  # else it might be over before the crash
    job = await world.start(IGNORES_SIGTERM, limit=1, attempts=3)
    await world.crash()
    world.runtime.release("stop")
    world.runtime.all_calls.clear()
    await world.sleep(4)
    booted = world.clock.now()

    await world.boot()

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT, exit_codes=[137])
    assert done.stop.ordered_at - booted < world.slack
    assert await world.engine_calls(job) == ["stop", "kill", "remove"]


SIGNAL = {"batchq:checkpoints": "true", "batchq:checkpoint-signal": "USR1"}


async def running(world, *, tags=SIGNAL, **script):
    writes = lasting(**{"output": ("ready",), "checkpoints": ("step-1",), "on_request": "final"} | script)
    return await world.start(writes, tags=tags)


async def keeps_only(world, job, names):
    """Wait until these are the checkpoints. After a restart others are deleted by a sweep."""

    async def holds():
        return await world.checkpoint_names(job) == list(names)

    await world.until(holds, f"not only {names} are kept")


async def ends_with_one_final_checkpoint(world, job, *, kept=("step-1", "final"), signals=(2,)):
    """`signals`: the permitted numbers of checkpoint and stop signals, together."""
    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    await world.wait_until_idle()
    assert done.stop.final_checkpoint == "final"
    await keeps_only(world, job, kept)
    assert len(done.attempts) == 1
    calls = await world.engine_calls(job)
    assert (calls.count("start"), calls.count("kill")) == (1, 0)
    assert calls.count("stop") in signals


async def fail(*_):
    raise StoreFailed("input/output error")


@pytest.mark.fault("CK01")
async def test_killed_after_the_order(world):
    job = await running(world)
    await world.crash_in_commit(world.terminate(job, checkpoint=True))

    await world.boot()

    await ends_with_one_final_checkpoint(world, job)


@pytest.mark.fault("CK01")
async def test_killed_after_the_checkpoint_signal_before_its_delivery_was_saved(world):
    """The signal is not sent again: the checkpoint that it requested is awaited."""
    job = await running(world, request_delay=5)
    world.runtime.hold("stop")
    await world.terminate(job, checkpoint=True)
    await world.wait_for_call(job, "stop")
    await world.crash_after("stop")

    await world.boot()

    await ends_with_one_final_checkpoint(world, job)


@pytest.mark.fault("CK01")
async def test_a_server_that_returns_after_the_timeout_finds_the_checkpoint_before_it_repeats_the_signal(world):
    job = await running(world, tags=SIGNAL | {"batchq:checkpoint-timeout": "3"}, request_delay=1)
    world.runtime.hold("stop")
    await world.terminate(job, checkpoint=True)
    await world.wait_for_call(job, "stop")
    await world.crash_after("stop")
    await world.wait_for_checkpoint(job, "final")
    await world.sleep(3)

    await world.boot()

    await ends_with_one_final_checkpoint(world, job)


@pytest.mark.fault("CK01")
async def test_killed_between_the_save_and_the_checkpoint_signal(world):
    """The signal is sent again once the time for a checkpoint is over."""
    job = await running(world, tags=SIGNAL | {"batchq:checkpoint-timeout": "3"})
    world.runtime.hold("stop")
    await world.terminate(job, checkpoint=True)
    await world.wait_for_call(job, "stop")

    await world.restart(dropping="stop")

    await ends_with_one_final_checkpoint(world, job, signals=(3,))  # the first did not reach the engine


@pytest.mark.fault("CK01")
async def test_killed_after_the_checkpoint_before_it_was_seen(world):
    job = await running(world, request_delay=4)
    await world.terminate(job, checkpoint=True)
    await world.wait_for_signal(job)
    await world.crash()
    await world.wait_for_checkpoint(job, "final")

    await world.boot()

    await ends_with_one_final_checkpoint(world, job)


@pytest.mark.fault("CK01")
async def test_killed_while_the_program_saves_and_exits_by_itself(world):
    """The container is gone when the server returns: a stop signal has no effect any more."""
    job = await running(world, request_delay=4, request_exit=0)
    await world.terminate(job, checkpoint=True)
    await world.wait_for_signal(job)
    tag = (await world.job(job)).tag
    await world.crash()
    await over(world.machine, tag)

    await world.boot()

    await ends_with_one_final_checkpoint(world, job, signals=(1, 2))


@pytest.mark.fault("CK01")
async def test_killed_after_the_stop_signal(world):
    job = await running(world, term_delay=5)
    await world.terminate(job, checkpoint=True)
    await world.wait_until(job, lambda job: job.stop.signalled_at is not None)
    await world.crash()

    await world.boot()

    await ends_with_one_final_checkpoint(world, job)


@pytest.mark.fault("CK02")
async def test_killed_before_the_deletion(world, monkeypatch):
    job = await running(world)
    with monkeypatch.context() as disk:
        disk.setattr(world.checkpoints, "discard_except", fail)
        await world.terminate(job, checkpoint=True, keep_checkpoints=False)
        await world.wait_for(job, Status.FAILED)
        await world.crash()
    assert await world.checkpoint_names(job) == ["step-1", "final"]

    await world.boot()

    await ends_with_one_final_checkpoint(world, job, kept=("final",))


@pytest.mark.fault("CK02")
async def test_nothing_is_deleted_for_an_order_that_is_not_saved(world):
    job = await running(world)
    world.store.failing = True
    with pytest.raises(Exception, match="no space left on device"):
        await world.terminate(job, keep_checkpoints=False)
    await world.crash()
    world.store.failing = False

    await world.boot()

    await world.wait_for(job, Status.RUNNING)
    assert await world.checkpoint_names(job) == ["step-1"]
    await world.finish(job, Status.SUCCEEDED)
    assert await world.checkpoint_names(job) == ["step-1"]
