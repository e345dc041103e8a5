"""Multi-node parallel jobs: placed together, started by the main node, and ended by it. aws-batch.md 5.6, 9."""

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.ids import node_id
from tests.support.builders import gang, task
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, LASTING, Script, contained, lasting

MAIN = "0/default"
BRIEF = Script(seconds=0)
SOME_TIME = Script(seconds=1)


def node(*scripts, **changes):
    """A node of one container, as AWS's `container` of a range is."""
    return task(contained("default", *scripts, **changes))


def worked(main, *, others=HANDLES_SIGTERM, count=3):
    return gang(count, leader=node(main), each=node(others))


def codes(attempt):
    return {container.key: container.exit_code for container in attempt.containers}


async def ends(world, job, *keys):
    """Wait until these containers are over, and it is known."""
    await world.wait_until(
        job,
        lambda other_job: other_job.attempt is not None and None not in [codes(other_job.attempt)[key] for key in keys],
    )


async def all_ready(world, job, *keys):
    for key in keys:
        await world.wait_for_output(job, "ready", key)


async def test_the_main_node_starts_first_and_its_end_ends_the_job(world):
    job = await world.submit(nodes=worked(LASTING))
    await all_ready(world, job, "1/default", "2/default")

    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.SUCCEEDED, status_reason=status_reasons.EXITED)

    assert (await world.engine_calls_by_container(job, "start"))[0] == MAIN
    assert codes(done.attempts[0])[MAIN] == 0
    assert await world.engine_calls(job, container_key="2/default") == ["create", "start", "stop", "remove"]


async def test_each_node_gets_its_index_and_the_address_of_the_main_node(world):
    names = ("AWS_BATCH_JOB_ID", "AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")
    prints = Script(seconds=0, prints_environment=names)
    job = await world.submit(nodes=worked(LASTING, others=prints, count=2))
    await ends(world, job, "1/default")
    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.SUCCEEDED)

    address = done.attempts[0].containers[0].address
    assert address is not None
    assert await world.output(job, container_key="1/default") == [f"{job}#1", "1", address]


async def test_a_main_node_whose_first_container_ends_at_once_has_an_address(world):
    first = contained("init", BRIEF, essential=False)
    leader = task(first, contained("default", LASTING, after={"init": "SUCCESS"}))
    prints = Script(seconds=0, prints_environment=("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",))
    job = await world.submit(nodes=gang(2, leader=leader, each=node(prints)))
    await ends(world, job, "1/default")
    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.SUCCEEDED)

    address = next(container.address for container in done.attempts[0].containers if container.key == MAIN)
    assert address is not None
    assert await world.output(job, container_key="1/default") == [address]


async def test_a_multi_node_job_is_placed_completely_or_not(world):
    holder = await world.submit(LASTING, millicpus=3500)
    job = await world.submit(nodes=worked(BRIEF))

    await world.wait_for(holder, Status.RUNNING)
    assert (await world.job(job)).status is Status.RUNNABLE
    await world.finish(holder)

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert done.started_at >= (await world.job(holder)).stopped_at


async def test_the_failure_of_another_node_does_not_fail_the_job(world):
    job = await world.submit(nodes=worked(LASTING, others=Script(seconds=0, exit_code=3)))
    await ends(world, job, "1/default", "2/default")
    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert codes(done.attempts[0]) == {MAIN: 0, "1/default": 3, "2/default": 3}


async def test_a_failed_main_node_retries_all_nodes(world):
    main = node(Script(seconds=1, exit_code=5), BRIEF)
    job = await world.submit(nodes=gang(2, leader=main, each=node(IGNORES_SIGTERM)), attempts=2)

    done = await world.wait_for(job, Status.SUCCEEDED, exit_codes=[5, 0])

    assert [len(attempt.containers) for attempt in done.attempts] == [2, 2]


async def test_a_main_node_that_cannot_start_starts_no_other(world):
    job = await world.submit(nodes=worked(Script(refuse="no such file")))

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.NOT_STARTED)

    assert await world.engine_calls(job, container_key="1/default") == []


async def test_any_node_may_be_the_main_node(world):
    job = await world.submit(nodes=gang(2, main=1, leader=node(LASTING), each=node(HANDLES_SIGTERM)))
    await all_ready(world, job, MAIN)
    await world.finish(job, container_key="1/default")

    await world.wait_for(job, Status.SUCCEEDED)

    assert await world.engine_calls_by_container(job, "start") == ["1/default", MAIN]


# -------------------------------------------------------------------------------------------------------------- stopped


async def test_a_terminate_stops_every_node(world):
    job = await world.submit(nodes=worked(HANDLES_SIGTERM), attempts=3)
    await all_ready(world, job, MAIN, "1/default", "2/default")

    await world.terminate(job, "stop it")

    done = await world.wait_for(job, Status.FAILED, status_reason="stop it", is_terminated=True)
    assert [codes(attempt) for attempt in done.attempts] == [{MAIN: 0, "1/default": 0, "2/default": 0}]


async def test_a_terminate_of_the_main_node_stops_the_job(world):
    job = await world.submit(nodes=worked(HANDLES_SIGTERM, count=2))
    await all_ready(world, job, MAIN, "1/default")

    await world.terminate(node_id(job, 0), "stop it")

    await world.wait_for(job, Status.FAILED, status_reason="stop it")


async def test_a_terminate_of_another_node_stops_it_alone(world):
    job = await world.submit(nodes=worked(LASTING, count=3))
    await all_ready(world, job, "1/default", "2/default")

    await world.terminate(node_id(job, 1), "not you")
    await ends(world, job, "1/default")
    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.SUCCEEDED, is_terminated=False)
    stopped, spared = done.attempts[0].containers[1:]
    assert (stopped.exit_code, stopped.terminated_by.reason) == (0, "not you")
    assert stopped.stopped_at <= done.stopped_at <= spared.stopped_at


async def test_a_node_that_ignores_sigterm_holds_all_resources_until_it_is_killed(world):
    job = await world.submit(nodes=worked(LASTING, others=IGNORES_SIGTERM, count=2))
    await all_ready(world, job, "1/default")
    waiting = await world.submit(millicpus=4000)
    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.SUCCEEDED)

    assert codes(done.attempts[0]) == {MAIN: 0, "1/default": 137}
    assert (await world.wait_for(waiting, Status.SUCCEEDED)).started_at >= done.attempts[0].containers[1].stopped_at


async def test_a_timeout_stops_every_node(world):
    job = await world.submit(nodes=worked(HANDLES_SIGTERM, count=2), limit=1, attempts=3)

    done = await world.wait_for(job, Status.FAILED, status_reason=status_reasons.TIMED_OUT)

    assert len(done.attempts) == 1


async def test_a_cancel_of_a_node_prevents_a_retry_of_the_job(world):
    main = node(lasting(5), BRIEF)
    job = await world.submit(nodes=gang(2, leader=main, each=node(IGNORES_SIGTERM)), attempts=2)
    await world.wait_for(job, Status.RUNNING)

    await world.cancel(node_id(job, 1), "not wanted")
    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.FAILED, status_reason="not wanted", is_cancelled=True)
    assert len(done.attempts) == 1


# -------------------------------------------------------------------------------------------------------------- crashes


async def test_after_a_crash_the_other_nodes_start(world):
    job = await world.submit(nodes=worked(lasting(output=("ready",)), count=2))
    await world.wait_for_output(job, "ready", MAIN)

    await world.restart()
    await all_ready(world, job, "1/default")
    await world.finish(job, container_key=MAIN)

    done = await world.wait_for(job, Status.SUCCEEDED)
    # The call of a start that was under way at the crash is repeated; its program is not.
    assert [await world.output(job, container_key=key) for key in (MAIN, "1/default")] == [["ready"], ["ready"]]
    assert done.attempts[0].number == 1


async def test_a_crash_during_the_start_starts_no_node_twice(world):
    job = await world.submit_until(
        "start", nodes=worked(SOME_TIME, others=IGNORES_SIGTERM, count=2), container_key=MAIN
    )

    await world.restart(dropping="start")

    await world.wait_for(job, Status.SUCCEEDED)
    await world.wait_until_containers_are_gone()
