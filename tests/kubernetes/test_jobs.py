"""Jobs on Kubernetes, from the submission to the archived log: on the model of the API server, and on a cluster."""

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.script import script_variable
from batchq.domain.enums import Action, Status
from batchq.domain.ids import LABEL_TAG
from batchq.domain.job import ExitRule
from tests.scenarios.test_machine_list import (  # noqa: F401 - each scenario is written once
    test_a_machine_without_jobs_has_nothing_requested,
    test_a_running_job_is_on_one_machine_which_counts_what_it_requests,
)
from tests.support.builders import task
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, LASTING, Script, contained, lasting

NO_RETRY = (ExitRule(action=Action.EXIT, on_reason="CannotPull*"),)
READY = lasting(output=("ready",))
HOSTNAME = "kubernetes.io/hostname"
#: Seconds for the end of an attempt whose image is absent. A kubelet of 1.20 confirms the deletion of the pod only when
#: its collection of containers, each minute, has removed the sandbox of the pod. Measured: 62.8 to 63.0 s, in 4 of 4.
#: Newer kubelets end the pod in a terminal phase within 10 s.
ABSENT_IMAGE = 90.0


async def test_a_job_succeeds_and_its_log_is_archived(world):
    job = await world.run(Script(seconds=0, output=("one", "two")))

    await world.wait_until_containers_are_gone()
    assert await world.output(job) == ["one", "two"]


async def test_a_job_fails_with_its_exit_code_and_is_retried(world):
    job = await world.submit(Script(seconds=0, exit_code=3), attempts=2)

    done = await world.wait_for(job, Status.FAILED, exit_codes=[3, 3])

    assert done.attempts[0].started_at <= done.attempts[0].stopped_at <= done.attempts[1].started_at


async def test_a_job_that_handles_sigterm_is_terminated_with_its_own_exit_code(world):
    job = await world.start(replace(HANDLES_SIGTERM, on_term=7))
    await world.wait_for_output(job, "ready")

    await world.terminate(job, "enough")

    done = await world.wait_for(job, Status.FAILED, status_reason="enough", exit_codes=[7])
    assert done.stop.killed_at is None
    assert await world.output(job) == ["ready"]


async def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.wait_for_output(job, "ready")

    await world.terminate(job, "enough")

    done = await world.wait_for(job, Status.FAILED, status_reason="enough", exit_codes=[137])
    assert done.stop.killed_at is not None
    assert await world.output(job) == ["ready"]


async def test_a_job_with_an_init_process_gets_its_signals(world):
    """Process 1 of its pod is the pause container, which a signal does not end."""
    job = await world.start(replace(HANDLES_SIGTERM, on_term=7), init=True)
    await world.wait_for_output(job, "ready")

    await world.terminate(job, "enough")

    await world.wait_for(job, Status.FAILED, status_reason="enough", exit_codes=[7])
    assert await world.output(job) == ["ready"]


async def test_one_of_two_containers_that_share_process_ids_gets_its_signal_alone(world):
    parts = [contained(name, replace(HANDLES_SIGTERM, on_term=7), essential=name == "app") for name in ("app", "side")]
    job = await world.submit(task=task(*parts, share_pids=True))
    for key in ("0/app", "0/side"):
        await world.wait_for_output(job, "ready", key)

    await world.terminate_all(f"{job}.side")

    ended = {"0/app": None, "0/side": 7}
    await world.wait_until(job, lambda job: {part.key: part.exit_code for part in job.attempt.containers} == ended)
    await world.terminate(job, "enough")
    await world.wait_for(job, Status.FAILED, status_reason="enough")


async def test_a_cancelled_job_that_runs_goes_on(world):
    job = await world.start(READY)

    await world.cancel(job)
    await world.finish(job)

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_job_that_runs_is_found_again_after_a_crash_of_the_server(world):
    job = await world.start(READY)
    await world.wait_for_output(job, "ready")

    await world.crash()
    await world.boot()
    await world.finish(job)

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert len(done.attempts) == 1
    assert await world.output(job) == ["ready"]


async def test_a_job_that_ends_while_the_server_is_down_has_its_own_exit_code(world):
    job = await world.start(lasting(4))
    await world.crash()

    await world.finish(job)
    await world.boot()

    await world.wait_for(job, Status.FAILED, exit_codes=[4])


@pytest.mark.parametrize("call", ["create", "start"])
async def test_a_crash_of_the_server_within_a_start_does_not_start_a_job_twice(world, call):
    job = await world.submit_until(call, Script(seconds=0, output=("once",)))
    await world.crash_after(call)

    await world.boot()

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert len(done.attempts) == 1
    assert await world.output(job) == ["once"]


async def test_the_children_of_an_array_run(world):
    job = await world.submit(Script(seconds=0), array_size=4, children={2: Script(seconds=0, exit_code=5)})

    await world.wait_for(job, Status.FAILED)


async def test_a_program_that_does_not_exist_is_the_reason_of_the_attempt(world):
    job = await world.submit(Script(refuse="no such file"))

    done = await world.wait_for(job, Status.FAILED)

    assert done.attempts[0].reason.startswith("CannotStartContainerError: ")
    assert done.attempts[0].exit_code == 127


async def test_what_kubernetes_does_not_have_is_the_reason_of_the_attempt(world):
    job = await world.submit(Script(seconds=0), swappiness=10)

    done = await world.wait_for(job, Status.FAILED)

    assert done.attempts[0].reason == (
        "CannotCreateContainerError: linuxParameters.swappiness is not available on Kubernetes"
    )


async def test_a_dollar_sign_reaches_the_program_as_it_is(world):
    """Kubernetes replaces `$(NAME)`, and `$$` by `$`."""
    script = Script(seconds=0, prints_environment=("TEXT",))

    job = await world.run(script, environment=(("TEXT", "$(HOME) $$ $$(HOME) $"), script_variable(script)))

    assert await world.output(job) == ["$(HOME) $$ $$(HOME) $"]


@pytest.mark.timeout(180)
async def test_an_absent_image_is_the_reason_of_the_attempt(world, monkeypatch):
    monkeypatch.setattr("tests.support.world.TIMEOUT", ABSENT_IMAGE)
    if hasattr(world.machine, "model"):
        world.machine.model.missing_images["127.0.0.1:1/none:latest"] = "connection refused"
    job = await world.submit(Script(seconds=0), image="127.0.0.1:1/none:latest", attempts=2, rules=NO_RETRY)

    done = await world.wait_for(job, Status.FAILED)

    assert done.attempts[0].reason.startswith("CannotPullContainerError: ")
    assert len(done.attempts) == 1


async def test_a_job_waits_for_room_on_a_node_and_may_be_cancelled(world):
    running = [await world.start(LASTING, millicpus=1500) for _ in range(2)]
    waiting, unwanted = [await world.submit(Script(seconds=0), millicpus=1500) for _ in range(2)]

    await world.wait_for(waiting, Status.RUNNABLE)
    await world.cancel(unwanted, "not needed")
    for job in running:
        await world.finish(job)

    await world.wait_for(unwanted, Status.FAILED, status_reason="not needed", attempts=())
    await world.wait_for(waiting, Status.SUCCEEDED)


async def test_a_job_runs_on_the_node_that_its_environment_selects(world):
    node = (await world.machine.machines())[-1]
    (hostname,) = [value for key, value in node.labels if key == HOSTNAME]
    await world.environment("chosen", max_millicpus=1000, tags=((f"{LABEL_TAG}{HOSTNAME}", hostname),))
    await world.queue("chosen", environments=("chosen",))

    job = await world.run(Script(seconds=0), queue="chosen")

    assert (await world.job(job)).latest_attempt.containers[0].machine == node.name
