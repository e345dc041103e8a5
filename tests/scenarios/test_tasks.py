"""Jobs of several containers: starts, ends, and which container decides. aws-batch.md 5.4, 11.3; faults.md 6."""

from datetime import timedelta

from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.container import Mount
from batchq.domain.enums import Status
from batchq.domain.ids import Tag, stream_name
from tests.support.builders import task
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, LASTING, Script, contained, lasting

APP, SIDECAR, INIT = "0/app", "0/sidecar", "0/init"
BRIEF = Script(seconds=0)
SOME_TIME = Script(seconds=1)
IN_TIME = 8  # seconds, of which what ends in time needs next to none
READY = lasting(output=("ready",))


def app(*scripts, **changes):
    return contained("app", *scripts, **changes)


def sidecar(script=HANDLES_SIGTERM, **changes):
    return contained("sidecar", script, essential=False, **changes)


def sidecar2():
    return contained("sidecar2", HANDLES_SIGTERM, essential=False)


def init(script=BRIEF, **changes):
    return contained("init", script, essential=False, **changes)


def codes(attempt):
    return {container.key: container.exit_code for container in attempt.containers}


async def both_ready(world, job):
    await world.wait_for_output(job, "ready", APP)
    await world.wait_for_output(job, "ready", SIDECAR)


async def test_the_job_ends_with_its_essential_container(world):
    job = await world.submit(task=task(app(LASTING), sidecar()))
    await world.wait_for_output(job, "ready", SIDECAR)

    await world.finish(job, container_key=APP)

    done = await world.wait_for(job, Status.SUCCEEDED, status_reason=status_reasons.EXITED)

    assert await world.statuses(job) == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]
    assert done.attempts[0].exit_code == 0
    assert await world.engine_calls(job, container_key=APP) == ["create", "start", "remove"]
    assert await world.engine_calls(job, container_key=SIDECAR) == ["create", "start", "stop", "remove"]


async def test_a_container_that_waits_for_a_success_starts_after_it(world):
    job = await world.submit(task=task(init(SOME_TIME), app(BRIEF, after={"init": "SUCCESS"})))

    done = await world.wait_for(job, Status.SUCCEEDED)

    first, second = done.attempts[0].containers
    assert first.stopped_at <= second.started_at
    assert await world.engine_calls_by_container(job, "start") == [INIT, APP]


async def test_containers_share_files_in_a_volume(world):
    shared = (Mount(container_path="/shared", host_path=None, volume="work"),)
    writes = replace(init(mounts=shared), spec=replace(init(mounts=shared).spec, command=("touch", "/shared/it")))
    spec = app(BRIEF, mounts=shared, after={"init": "SUCCESS"})
    reads = replace(spec, spec=replace(spec.spec, command=("test", "-e", "/shared/it")))

    job = await world.submit(task=task(writes, reads))

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_container_that_can_never_start_fails_the_job(world):
    job = await world.submit(task=task(init(Script(seconds=0, exit_code=3)), app(BRIEF, after={"init": "SUCCESS"})))

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)

    assert done.attempts[0].reason == "ContainerDependencyError: container init will not reach SUCCESS"
    assert codes(done.attempts[0]) == {INIT: 3, APP: None}
    assert await world.engine_calls(job, container_key=APP) == []


async def test_the_failure_of_a_non_essential_container_does_not_fail_the_job(world):
    job = await world.submit(task=task(app(LASTING), sidecar(Script(seconds=0, exit_code=3))))
    await world.wait_until(job, lambda job: job.attempt is not None and codes(job.attempt) == {APP: None, SIDECAR: 3})
    await world.finish(job, container_key=APP)

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert codes(done.attempts[0]) == {APP: 0, SIDECAR: 3}


async def test_an_essential_container_that_cannot_start_fails_the_job_and_stops_the_others(world):
    job = await world.submit(task=task(app(Script(refuse="no such file")), sidecar(IGNORES_SIGTERM)))

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED, exit_codes=[127])

    await world.wait_until_containers_are_gone()


async def test_a_retry_starts_all_containers(world):
    job = await world.submit(task=task(app(lasting(5), BRIEF), sidecar(IGNORES_SIGTERM)), attempts=2)
    await world.wait_for_output(job, "ready", SIDECAR)
    await world.finish(job, container_key=APP)

    done = await world.wait_for(job, Status.SUCCEEDED, exit_codes=[5, 0])

    assert [len(attempt.containers) for attempt in done.attempts] == [2, 2]
    assert [len(await world.engine_calls(job, attempt=number, container_key=SIDECAR)) > 0 for number in (1, 2)] == [
        True,
        True,
    ]


async def test_each_container_has_its_own_log(world):
    first, second = lasting(output=("one",)), Script(seconds=0, output=("two",))
    job = await world.submit(task=task(app(first), sidecar(second, after={"app": "START"})))
    await world.wait_until(job, lambda job: job.attempt is not None and codes(job.attempt) == {APP: None, SIDECAR: 0})
    await world.finish(job, container_key=APP)

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert (await world.output(job, container_key=APP), await world.output(job, container_key=SIDECAR)) == (
        ["one"],
        ["two"],
    )
    for key in (APP, SIDECAR):
        tag = Tag(job_id=job, attempt=1, container_key=key)
        assert (await world.store.stream(stream_name(done.spec.definition.name, tag))).tag == tag


# -------------------------------------------------------------------------------------------------------------- stopped


async def test_a_terminate_stops_all_containers(world):
    job = await world.submit(task=task(app(HANDLES_SIGTERM), sidecar()), attempts=3)
    await both_ready(world, job)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True)
    assert [codes(attempt) for attempt in done.attempts] == [{APP: 0, SIDECAR: 0}]


async def test_a_container_that_ignores_sigterm_is_killed_after_its_own_grace_period(world):
    hanging = sidecar(IGNORES_SIGTERM, stop_timeout=timedelta(seconds=1))
    job = await world.submit(task=task(app(HANDLES_SIGTERM), hanging))
    await both_ready(world, job)

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED)
    assert codes(done.attempts[0]) == {APP: 0, SIDECAR: 137}
    assert await world.engine_calls(job, container_key=SIDECAR) == ["create", "start", "stop", "kill", "remove"]
    assert await world.engine_calls(job, container_key=APP) == ["create", "start", "stop", "remove"]


async def test_a_container_terminated_alone_leaves_the_job_and_its_other_containers_running(world):
    slow = replace(HANDLES_SIGTERM, term_delay=1)  # its exit is stored after the signal
    job = await world.submit(task=task(app(READY), sidecar(slow), sidecar2()))
    await both_ready(world, job)

    assert await world.terminate_all(f"{job}.sidecar", reason="too hot") == {f"{job}.sidecar": "CONTAINER_STOPPING"}
    await world.wait_until(job, lambda job: codes(job.attempt)[SIDECAR] is not None)
    assert await world.terminate_all(f"{job}.1") == {f"{job}.sidecar": "ALREADY_FINISHED"}
    await world.finish(job, container_key=APP)

    done = await world.wait_for(job, Status.SUCCEEDED)
    _, stopped, other = done.attempts[0].containers
    assert (stopped.terminated_by.reason, other.terminated_by, done.stop_orders) == ("too hot", None, ())
    assert stopped.stopped_at <= done.stopped_at <= other.stopped_at
    steps = [
        (other_job.stop.container, other_job.stop.progress)
        for other_job in await world.store.history(job)
        if other_job.stop is not None
    ]
    assert steps == [("sidecar", "ORDERED"), ("sidecar", "SIGNALLED")]


async def test_a_terminate_of_an_essential_container_is_one_of_the_job(world):
    job = await world.submit(task=task(app(HANDLES_SIGTERM), sidecar()), attempts=3)
    await both_ready(world, job)

    assert await world.terminate_all(f"{job}.app", reason="enough") == {f"{job}.app": "STOPPING"}

    done = await world.wait_for(job, Status.FAILED, status_reason="enough")
    assert (len(done.attempts), done.is_terminated) == (1, True)


async def test_no_container_of_a_job_that_has_not_started_can_be_stopped_alone(world):
    job = await world.submit(task=task(app(LASTING), sidecar()), after=[await world.submit(LASTING)])

    assert await world.terminate_all(f"{job}.sidecar") == {f"{job}.sidecar": "REFUSED"}
    assert await world.cancel_all(f"{job}.sidecar", preview=True) == {f"{job}.sidecar": "REFUSED"}
    assert await world.terminate_all(f"{job}.no-such") == {f"{job}.no-such": "NOT_FOUND"}

    assert (await world.job(job)).stop_orders == ()


async def test_a_container_that_was_ordered_to_stop_alone_stops_after_a_crash(world):
    job = await world.submit(task=task(app(READY), sidecar(IGNORES_SIGTERM)))
    await both_ready(world, job)
    await world.terminate_all(f"{job}.sidecar")

    await world.restart()

    await world.wait_until(job, lambda job: codes(job.attempt)[SIDECAR] == 137)
    assert (await world.job(job)).status is Status.RUNNING
    await world.finish(job, container_key=APP)
    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_task_terminated_before_its_start_starts_no_container(world):
    job = await world.submit_until("create", task=task(app(HANDLES_SIGTERM), sidecar()), container_key=APP)

    await world.terminate(job, "stop it")
    world.runtime.release("create")

    await world.wait_for(job, Status.FAILED, status_reason="stop it", attempts=())
    assert await world.engine_calls_by_container(job, "start") == []


async def test_a_task_terminated_at_any_moment_leaves_no_container_running(world):
    tasks = task(init(), app(IGNORES_SIGTERM, after={"init": "SUCCESS"}), sidecar(IGNORES_SIGTERM))
    jobs = [await world.submit(task=tasks) for _ in range(4)]

    for number, job in enumerate(jobs):
        await world.sleep(0.05 * number)
        await world.terminate(job, "stop it")

    for job in jobs:
        await world.wait_for(job, Status.FAILED, status_reason="stop it")
    await world.wait_until_containers_are_gone()


async def test_a_timeout_stops_all_containers(world):
    job = await world.submit(task=task(app(HANDLES_SIGTERM), sidecar()), limit=1, attempts=3)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT, is_terminated=False)

    assert len(done.attempts) == 1


async def test_a_container_being_created_at_the_timeout_is_not_started(world):
    tasks = task(init(LASTING), app(HANDLES_SIGTERM, after={"init": "SUCCESS"}))
    job = await world.submit(task=tasks, limit=IN_TIME)
    await world.wait_for(job, Status.RUNNING)
    world.runtime.hold("create")
    await world.finish(job, container_key=INIT)
    await world.wait_until(job, lambda job: job.stop is not None)

    world.runtime.release("create")

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT)
    assert done.attempts[0].exit_code is None
    assert await world.engine_calls_by_container(job, "start") == [INIT]


async def test_a_container_that_waits_longer_than_its_start_timeout_fails(world):
    slow = init(HANDLES_SIGTERM, start_timeout=timedelta(seconds=1))
    job = await world.submit(task=task(slow, app(BRIEF, after={"init": "COMPLETE"})))

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)

    why = "DependencyTimeoutError: container init did not reach COMPLETE within 1 seconds"
    assert done.attempts[0].reason == why
    assert await world.engine_calls(job, container_key=APP) == []


async def test_a_condition_met_in_time_without_an_event_is_met(world):
    world.runtime.drops_death_reports = True
    quick = init(BRIEF, start_timeout=timedelta(seconds=30))

    job = await world.submit(task=task(quick, app(BRIEF, after={"init": "SUCCESS"})))

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_cancel_leaves_all_containers_running(world):
    job = await world.submit(task=task(app(LASTING), sidecar()), attempts=3)
    await world.wait_for(job, Status.RUNNING)

    await world.cancel(job)
    await world.finish(job, container_key=APP)

    await world.wait_for(job, Status.SUCCEEDED, is_cancelled=False)


# -------------------------------------------------------------------------------------------------------------- crashes


async def test_after_a_crash_all_containers_continue(world):
    job = await world.submit(task=task(app(LASTING), sidecar()))
    await world.wait_for_output(job, "ready", SIDECAR)

    await world.restart()
    await world.finish(job, container_key=APP)

    await world.wait_for(job, Status.SUCCEEDED)
    assert sorted(await world.engine_calls_by_container(job, "start")) == [APP, SIDECAR]


async def test_a_container_that_ended_during_the_crash_has_ended(world):
    job = await world.submit(task=task(app(LASTING), sidecar()))
    await world.wait_for_output(job, "ready", SIDECAR)

    await world.crash()
    await world.finish(job, container_key=APP)
    await world.boot()

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert codes(done.attempts[0]) == {APP: 0, SIDECAR: 0}


async def test_a_container_that_waited_during_the_crash_starts_after_it(world):
    job = await world.submit(task=task(init(LASTING), app(BRIEF, after={"init": "SUCCESS"})))
    await world.wait_for(job, Status.RUNNING)

    await world.crash()
    await world.finish(job, container_key=INIT)
    await world.boot()

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_stop_order_survives_a_crash(world):
    job = await world.submit(task=task(app(HANDLES_SIGTERM), sidecar()))
    await both_ready(world, job)
    world.runtime.hold("stop")
    await world.terminate(job, "stop it")

    await world.restart(dropping="stop")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it")
    assert codes(done.attempts[0]) == {APP: 0, SIDECAR: 0}


async def test_a_removed_container_is_lost_and_its_job_is_retried(world):
    job = await world.submit(task=task(app(HANDLES_SIGTERM, BRIEF), sidecar(IGNORES_SIGTERM)), attempts=2)
    await both_ready(world, job)

    await world.runtime.remove(Tag(job_id=job, attempt=1, container_key=APP))

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert [(attempt.status_reason, attempt.exit_code) for attempt in done.attempts] == [
        (status_reasons.DISAPPEARED, None),
        (status_reasons.EXITED, 0),
    ]
