"""Starts of containers: their variables and addresses (aws-batch.md 12), and the circuit breaker."""

import pytest

from batchq.domain.ids import JobId, Tag
from batchq.engine.containers.start_breaker import MAX_PAUSE, MIN_JOBS, StartBreaker
from batchq.engine.containers.translation import launch_spec
from batchq.engine.supervisor import Supervisor
from tests.domain.lives import after, container_created, starting
from tests.domain.part_lives import app, is_created, multi_node_job, runs, sidecar, task_job
from tests.support.builders import gang, task
from tests.support.clock import VirtualClock


def tag(job, key=""):
    return Tag(job_id=job.id, attempt=1, container_key=key)


def result(job, key=""):
    """The variables AWS_BATCH_*, without this prefix."""
    variables = dict(launch_spec(job, tag(job, key)).environment)
    return {
        name.removeprefix("AWS_BATCH_"): value for name, value in variables.items() if name.startswith("AWS_BATCH_")
    }


def test_the_container_gets_its_attempt_queue_and_environment():
    job = starting()

    assert result(job) == {"JOB_ID": job.id, "JOB_ATTEMPT": "1", "JQ_NAME": "default", "CE_NAME": "local"}
    assert launch_spec(job, tag(job)).spec == job.spec.container
    assert ("AWS_EXECUTION_ENV", "AWS_ECS_EC2") in launch_spec(job, tag(job)).environment


def test_a_container_of_a_task_gets_the_variables_of_a_single_container():
    job = task_job(app(image="this"), sidecar(image="that"))

    assert result(job, "0/sidecar") == result(job, "0/app") == {**result(starting()), "JOB_ID": job.id}
    assert launch_spec(job, tag(job, "0/sidecar")).spec.image == "that"


def test_a_created_container_is_launched_by_its_id():
    one, several = (
        after(starting(), container_created(container_id="this")),
        after(task_job(app(), sidecar()), is_created("0/app")),
    )

    assert launch_spec(starting(), tag(starting())).container_id is None
    assert launch_spec(one, tag(one)).container_id == "this"
    assert [launch_spec(several, tag(several, key)).container_id for key in ("0/app", "0/sidecar")] == ["an-id", None]


def test_each_container_of_a_task_knows_the_others():
    job = starting(task=task(app(), sidecar(), share_ipc=True))

    made = launch_spec(job, tag(job, "0/sidecar"))

    assert (made.tag, made.beside) == (tag(job, "0/sidecar"), (app(),))
    assert (made.share_ipc, made.share_pids) == (True, False)


@pytest.mark.parametrize("address", ["10.0.0.7", None])
def test_the_other_nodes_get_the_number_of_nodes_and_the_address_of_the_main_node(address):
    job = after(multi_node_job(gang(3, main=1)), runs("1/app", address=address))

    own = {"JOB_NUM_NODES": "3", "JOB_MAIN_NODE_INDEX": "1", "JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": address}
    assert {name: result(job, "0/app").get(name) for name in own} == own
    assert {name: result(job, "1/app").get(name) for name in own} == own | {"JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": None}


CLOCK = VirtualClock()


@pytest.fixture
async def breaker():
    tasks = Supervisor(CLOCK)
    yield StartBreaker(clock=CLOCK, tasks=tasks)
    await tasks.cancel()


def fail(breaker, jobs, *images):
    for number in range(jobs):
        breaker.host_failed(JobId(f"job-{number}"), images[number % len(images)], "no cgroups")


def test_one_image_that_never_started_is_reported_and_does_not_open_the_breaker(breaker):
    fail(breaker, 50, "bad")

    assert not breaker.is_open
    assert breaker.error == "containers cannot be started: no cgroups"


def test_one_job_that_fails_repeatedly_does_not_open_the_breaker(breaker):
    breaker.succeeded("good")
    for _ in range(50):
        fail(breaker, 1, "good")

    assert (breaker.is_open, breaker.error) == (False, None)


@pytest.mark.parametrize("images", [("good",), ("one", "other")])
async def test_failures_of_several_jobs_of_a_proven_image_or_of_two_images_open_the_breaker(breaker, images):
    breaker.succeeded("good")
    fail(breaker, MIN_JOBS, *images)

    assert breaker.is_open


def test_a_success_between_failures_keeps_the_breaker_closed(breaker):
    for _ in range(20):
        fail(breaker, MIN_JOBS - 1, "one", "other")
        breaker.succeeded("good")

    assert not breaker.is_open


async def test_an_open_breaker_allows_single_starts_after_growing_pauses_until_one_succeeds(breaker):
    fail(breaker, MIN_JOBS, "one", "other")
    permits = [breaker.permit() for _ in range(9)]

    waited = []
    for permit in permits[:7]:
        before = CLOCK.now()
        await permit
        waited.append((CLOCK.now() - before).total_seconds())
        breaker.host_failed(JobId("job"), "one", "no cgroups")
    assert waited == [1, 1, 2, 4, 8, 16, MAX_PAUSE]
    assert [permit.done() for permit in permits[7:]] == [False, False]

    breaker.succeeded("one")

    assert [permit.done() for permit in permits[7:]] == [True, True]
    assert breaker.permit() is None


async def test_an_abandoned_or_refused_start_does_not_use_the_trial_start(breaker):
    fail(breaker, MIN_JOBS, "one", "other")
    given_up, bad, good = [breaker.permit() for _ in range(3)]
    given_up.cancel()
    before = CLOCK.now()

    await bad
    breaker.job_failed()
    await good

    assert (CLOCK.now() - before).total_seconds() == 1


async def test_abandoned_starts_are_forgotten_at_once(breaker):
    fail(breaker, MIN_JOBS, "one", "two")
    last, *others = [breaker.permit() for _ in range(100)]

    for unit in others:
        unit.cancel()
    await CLOCK.sleep(0)

    assert list(breaker._waiting) == [last]
