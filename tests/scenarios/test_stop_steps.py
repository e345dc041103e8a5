"""Terminate in each state: plain, with a final checkpoint, with force. training.md 1.5."""

from datetime import timedelta

import pytest

from batchq.domain.bulk_stop import NO_DIRECTORY
from batchq.domain.enums import Outcome, Status, StopKind, StopProgress
from batchq.domain.ids import child_id
from batchq.domain.stop_request import StopRequest
from batchq.errors import Invalid
from tests.support.builders import gang, task
from tests.support.scripts import IGNORES_SIGTERM, Script, contained, lasting

CHECKPOINTS = {"batchq:checkpoints": "true"}
SIGNAL = CHECKPOINTS | {"batchq:checkpoint-signal": "USR1"}
#: It writes `final` after the checkpoint signal, and exits 0 after the stop signal.
WRITES = lasting(output=("ready",), on_request="final")
#: It does not write a checkpoint, and takes longer than any grace period to exit.
HANGS = Script(seconds=None, on_term=None, output=("ready",))
LONG = timedelta(minutes=10)


async def running(world, script=WRITES, tags=SIGNAL, **fields):
    return await world.start(script, tags=tags, **fields)


async def all_run(world, job):
    """Wait until all containers have installed their handlers, and their starts are stored."""
    running = await world.wait_until(
        job,
        lambda other_job: (
            other_job.attempt is not None and all(each.started_at is not None for each in other_job.attempt.containers)
        ),
    )
    for container in running.attempt.containers:
        await world.wait_for_output(job, "ready", container.key)


# ---------------------------------------------------------------------------------------------------------- not started


@pytest.mark.parametrize("how", [{"checkpoint": True}, {"force": True}])
async def test_a_queued_job_ends_at_once_and_gets_no_container(world, how):
    holder, job = await world.submit_behind(WRITES, tags=SIGNAL)

    await world.terminate(job, **how)

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=(), is_terminated=True)
    assert not done.stop.final_checkpoint_requested
    await world.finish(holder, Status.SUCCEEDED)
    assert await world.engine_calls(job) == []


async def test_a_starting_job_gets_no_checkpoint_signal(world):
    job = await world.submit_until("start", WRITES, tags=SIGNAL)

    await world.terminate(job, checkpoint=True)
    world.runtime.release("start")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert (done.stop.final_checkpoint_requested, done.stop.checkpoint_requested_at) == (False, None)
    assert (await world.engine_calls(job)).count("stop") == 1


@pytest.mark.fault("SP28")
async def test_a_forced_start_is_killed_as_soon_as_it_runs(world):
    job = await world.submit_until("start", HANGS)

    await world.terminate(job, force=True)
    world.runtime.release("start")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert await world.engine_calls(job) == ["create", "start", "kill", "remove"]


@pytest.mark.fault("SP28")
async def test_force_gives_up_a_start_that_hangs(world):
    job = await world.submit_until("create", WRITES)
    await world.terminate(job, "stop it")

    await world.terminate(job, "now", force=True)
    world.runtime.release("create")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=())
    assert done.stop.forced_at is not None
    assert "start" not in await world.engine_calls(job)


# -------------------------------------------------------------------------------------------------------------- running


@pytest.mark.fault("SP28")
async def test_force_kills_a_running_job_without_a_signal_before(world):
    job = await running(world, IGNORES_SIGTERM)

    await world.terminate(job, force=True)

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", exit_codes=[137])
    assert (done.stop.kind, done.stop.signalled_at) == (StopKind.TERMINATE, None)
    assert await world.engine_calls(job) == ["create", "start", "kill", "remove"]


async def test_a_signal_that_is_not_declared_is_not_sent(world):
    """The program would exit with 99 after any checkpoint signal."""
    job = await running(world, lasting(output=("ready",), request_exit=99), CHECKPOINTS)

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED)
    assert (done.attempts[0].exit_code, done.stop.checkpoint_requested_at) == (0, None)


@pytest.mark.parametrize(
    ("tags", "force", "why"),
    [(SIGNAL, True, "excludes a final checkpoint"), ({}, False, "has no checkpoint directory")],
    ids=["with force", "without a directory"],
)
async def test_a_final_checkpoint_that_is_refused_changes_nothing(world, tags, force, why):
    job = await running(world, tags=tags)

    with pytest.raises(Invalid, match=why):
        await world.terminate(job, checkpoint=True, force=force)

    assert (await world.job(job)).stop is None


# ------------------------------------------------------------------------------------------------------------- stopping


@pytest.mark.fault("SP12")
@pytest.mark.parametrize("how", [{}, {"checkpoint": True}])
async def test_a_stopping_job_keeps_its_first_order(world, how):
    job = await running(world, HANGS, grace=LONG)
    await world.terminate(job, "first")
    before = await world.wait_for_signal(job)

    await world.terminate(job, "second", **how)

    assert (await world.job(job)).stop == before.stop
    await world.terminate(job, force=True)
    await world.wait_for(job, Status.FAILED, status_reason="first")
    assert (await world.engine_calls(job)).count("stop") == 1


@pytest.mark.fault("SP28")
async def test_force_ends_the_wait_for_a_checkpoint_and_a_second_force_changes_nothing(world):
    job = await running(world, HANGS)
    await world.terminate(job, "stop it", checkpoint=True)
    await world.wait_for_signal(job)
    world.runtime.hold("kill")

    await world.terminate(job, "now", force=True)
    forced = await world.job(job)
    await world.terminate(job, "now!", force=True)

    assert forced.status is Status.RUNNING
    assert (forced.stop.reason, forced.stop.checkpoint_error) == ("stop it", "forced")
    assert (await world.job(job)).stop.forced_at == forced.stop.forced_at
    world.runtime.release("kill")
    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    steps = [other_job.stop.progress for other_job in await world.store.history(job) if other_job.stop is not None]
    assert steps == [StopProgress.ORDERED, StopProgress.CHECKPOINT_REQUESTED, StopProgress.FORCED, StopProgress.KILLED]
    assert done.attempts[0].exit_code == 137


@pytest.mark.fault("SP07", "SP18")
@pytest.mark.parametrize("how", [{}, {"checkpoint": True}, {"force": True}])
async def test_a_finished_job_does_not_change(world, how):
    job = await world.submit(Script(seconds=0), tags=SIGNAL)
    done = await world.wait_for(job, Status.SUCCEEDED)
    await world.wait_until_idle()

    await world.terminate(job, **how)

    assert await world.job(job) == done


# ------------------------------------------------------------------------------------- several containers, several jobs


async def test_all_containers_of_a_task_get_the_checkpoint_signal(world):
    def container(name, checkpoint):
        return contained(name, lasting(output=("ready",), on_request=checkpoint))

    job = await world.submit(task=task(container("app", "final"), container("helper", None)), tags=SIGNAL)
    await all_run(world, job)

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert done.stop.final_checkpoint == "final"
    assert all(container.checkpoint_requested_at is not None for container in done.attempts[0].containers)


async def test_the_other_nodes_run_until_the_main_node_has_written_its_checkpoint(world):
    leader = contained("app", lasting(output=("ready",), on_request="final", request_delay=2))
    other = contained("app", lasting(output=("ready",), term_delay=1))  # its exit is stored after the signal
    job = await world.submit(nodes=gang(2, leader=task(leader), each=task(other)), tags=SIGNAL)
    await all_run(world, job)

    await world.terminate(job, checkpoint=True)

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    main, worker = done.attempts[0].containers
    assert done.stop.final_checkpoint == "final"
    assert main.checkpoint_requested_at <= done.stop.checkpoint_seen_at <= worker.signalled_at
    assert worker.checkpoint_requested_at is None


async def test_the_children_of_an_array_write_final_checkpoints_and_can_be_forced(world):
    hangs = {1: HANGS}
    parent = await world.submit(WRITES, array_size=2, children=hangs, tags=SIGNAL)
    children = [child_id(parent, index) for index in (0, 1)]
    await world.wait_until(parent, lambda job: job.array_state is not None and job.array_state.spawned == len(children))
    for child in children:
        await world.wait_for_output(child, "ready")

    await world.terminate(parent, checkpoint=True)
    writer = await world.wait_for(children[0], Status.FAILED, status_reason="stop it")
    await world.wait_for_signal(children[1])
    await world.terminate(parent, "now", force=True)

    killed = await world.wait_for(children[1], Status.FAILED, status_reason="stop it")
    await world.wait_for(parent, Status.FAILED, status_reason="stop it")
    assert writer.stop.final_checkpoint == "final"
    assert (killed.attempts[0].exit_code, killed.stop.checkpoint_error) == (137, "forced")


async def test_a_bulk_stop_requests_checkpoints_where_there_is_a_directory(world):
    writes, plain = await running(world), await running(world, tags={})
    order = StopRequest(kind=StopKind.TERMINATE, reason="sweep", checkpoint=True)

    outcomes = await world.outcomes(order, writes, plain)

    assert {outcome.job_id: outcome.note for outcome in outcomes} == {writes: "", plain: NO_DIRECTORY}
    assert (await world.wait_for(writes, Status.FAILED)).stop.final_checkpoint == "final"
    assert not (await world.wait_for(plain, Status.FAILED)).stop.final_checkpoint_requested


async def test_a_forced_bulk_stop_kills_jobs_that_are_stopping(world):
    job = await running(world, HANGS)
    await world.terminate(job, "first", checkpoint=True)
    plain = StopRequest(kind=StopKind.TERMINATE, reason="second")
    force = StopRequest(kind=StopKind.TERMINATE, reason="third", force=True)

    (stands,) = await world.outcomes(plain, job)
    (forced,) = await world.outcomes(force, job)

    assert stands.standing.reason == "first"
    assert (forced.outcome, forced.standing, forced.note) == (Outcome.STOPPING, None, "")
    await world.wait_for(job, Status.FAILED, status_reason="first", exit_codes=[137])
