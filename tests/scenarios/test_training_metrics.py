"""Metrics of training jobs: their last values, while they run and after their end."""

from datetime import timedelta

import pytest

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Status
from batchq.errors import Invalid, NotFound
from tests.support.builders import ADMIN
from tests.support.scripts import LASTING, Script, lasting

OUTPUT = ("epoch 1 loss=0.9 val: 3", "epoch 2 loss: 0.5 val: 4", "done")
RULE = {"batchq:metric:val": r"val: (\d+)", "batchq:metric:none": r"nothing (\d+)"}


async def values(world, job_id, caller=ADMIN):
    found = await world.server.costs.metrics.current(await world.job(job_id), caller=caller)
    return {name: metric.value for name, metric in found.items()}


async def saved(world, job_id):
    """The metrics that are saved with the last attempt; waits for the clean-up of its container."""
    for _ in range(300):
        job = await world.job(job_id)
        if job.attempts and job.attempts[-1].metrics:
            break
        await world.sleep(0.1)
    return {name: metric.value for name, metric in (await world.job(job_id)).attempts[-1].metrics}


async def test_the_log_of_a_running_job_shows_the_default_metrics(world):
    job = await world.submit(lasting(output=OUTPUT))
    await world.wait_for_output(job, "done")

    assert await values(world, job) == {"loss": 0.5, "epoch": 2}


async def test_a_job_that_never_ran_has_no_metrics(world):
    first = await world.submit(LASTING)
    waits = await world.submit(LASTING, after=[first])

    assert await values(world, waits) == {}


async def test_rules_replace_the_default_metrics_and_are_saved_with_the_attempt(world):
    job = await world.run(Script(output=OUTPUT), tags=RULE)

    assert await saved(world, job) == {"val": 4}
    assert await values(world, job) == {"val": 4}


@pytest.mark.fault("BU03")
async def test_metrics_are_saved_although_the_server_is_killed_before(world):
    job = await world.submit(Script(output=OUTPUT), tags=RULE)
    world.runtime.hold("remove")
    await world.wait_for(job, Status.SUCCEEDED)
    await world.restart()
    world.runtime.release("remove")

    assert await saved(world, job) == {"val": 4}


async def test_metrics_jsonl_wins_over_the_log(world):
    job = await world.submit(lasting(output=OUTPUT), tags={"batchq:checkpoints": "true"} | RULE)
    await world.wait_for_output(job, "done")
    folder = await world.checkpoints.directory(job)
    (folder / "metrics.jsonl").write_text('{"loss": 0.9, "step": 1}\n{"loss": 0.25, "lr": true, "name": "x"}\n{"los')

    assert await values(world, job) == {"loss": 0.25, "step": 1}
    await world.finish(job)
    assert await saved(world, job) == {"loss": 0.25, "step": 1}


@pytest.mark.fault("BU05")
async def test_a_link_in_place_of_metrics_jsonl_is_not_followed(world, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('{"secret": 7}\n')
    job = await world.submit(lasting(output=OUTPUT), tags={"batchq:checkpoints": "true"})
    await world.wait_for_output(job, "done")
    (await world.checkpoints.directory(job) / "metrics.jsonl").symlink_to(secret)

    assert await values(world, job) == {"loss": 0.5, "epoch": 2}


@pytest.mark.fault("BU04")
async def test_a_regular_expression_that_backtracks_elsewhere_costs_linear_time(world):
    hard = {"batchq:metric:hard": r"^(a+)+$", "batchq:metric:other": r"(?:x+x+)+(y)"}
    job = await world.run(Script(output=("a" * 60 + "!", "x" * 4000)), tags=hard)

    before = world.clock.now()
    assert await values(world, job) == {}
    assert world.clock.now() - before < timedelta(seconds=5)


@pytest.mark.parametrize("regex", ["(", "(?=a)(b)", "no group", "(two)(groups)", r"(\pL{1000}){1000}"])
async def test_an_invalid_regular_expression_refuses_the_submission(world, regex):
    with pytest.raises(Invalid, match="The regular expression of metric bad"):
        await world.submit(tags={"batchq:metric:bad": regex})


async def test_the_metrics_of_a_job_of_another_user_are_not_found(world):
    job = await world.run(Script(output=OUTPUT))

    with pytest.raises(NotFound):
        await values(world, job, caller=Caller(user="eve", account="other"))
