"""Starts that the engine carries out later, and the grace period that a stop signal carries."""

from datetime import timedelta

from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from tests.support.scripts import Script, lasting

GRACE = timedelta(seconds=21)
SIGNAL = {
    "batchq:checkpoints": "true",
    "batchq:checkpoint-signal": "USR1",
    "batchq:checkpoint-timeout": "2",
}


def container(simulated, job):
    return simulated.machine.engine.containers[Tag(job_id=job, attempt=1)]


async def test_a_job_waits_in_starting_while_the_engine_pulls_its_image_itself(simulated, caplog):
    job = await simulated.submit(Script(seconds=1, pull_delay=30))

    why = await simulated.wait_for_why(job, "PULLING_IMAGE", "Has been pulling image batchq-test:latest for *s.")
    await simulated.wait_for(job, Status.SUCCEEDED)

    assert why.facts == {"image": "batchq-test:latest", "jobsWaiting": 1}
    assert "is retried" not in caplog.text
    saved = await simulated.job(job)
    assert saved.attempts[0].stopped_at - saved.attempts[0].started_at >= timedelta(seconds=1)


async def test_a_start_under_way_is_repeated_every_five_seconds(simulated):
    job = await simulated.submit(Script(seconds=20, pull_delay=12))

    await simulated.wait_for(job, Status.SUCCEEDED)

    assert await simulated.engine_calls(job) == [*["create", "start"] * 3, "create", "remove"]


async def test_a_job_terminated_while_its_start_is_under_way_ends_without_a_container(simulated):
    job = await simulated.submit(Script(seconds=None, pull_delay=3600))
    await simulated.wait_for_why(job, "PULLING_IMAGE")

    await simulated.terminate(job, "too slow")

    await simulated.wait_for(job, Status.FAILED, status_reason="too slow", attempts=())
    await simulated.wait_until_containers_are_gone()


async def test_a_start_under_way_continues_after_a_crash_of_the_server(simulated):
    job = await simulated.submit(Script(seconds=0, exit_code=3, pull_delay=30))
    await simulated.wait_for_why(job, "PULLING_IMAGE")

    await simulated.crash()
    await simulated.boot()

    await simulated.wait_for(job, Status.FAILED, exit_codes=[3])


async def test_the_stop_signal_carries_the_grace_period(simulated):
    job = await simulated.start(lasting(exit_code=1, term_delay=5), grace=GRACE)

    await simulated.terminate(job)
    await simulated.wait_for_signal(job)

    assert container(simulated, job).stop_grace == GRACE


async def test_a_request_for_a_checkpoint_carries_no_grace_period(simulated):
    """The program goes on after the request, so an engine must not end it."""
    job = await simulated.start(Script(seconds=None, output=("ready",)), tags=SIGNAL, grace=GRACE)
    graces = []
    forward = simulated.runtime.runtime.signal_stop

    async def recorded(tag, signal=None, *, grace=None):
        graces.append((signal, grace))
        await forward(tag, signal, grace=grace)

    simulated.runtime.runtime.signal_stop = recorded
    await simulated.terminate(job, checkpoint=True)
    await simulated.wait_for(job, Status.FAILED)

    assert graces == [("SIGUSR1", None), (None, GRACE)]
