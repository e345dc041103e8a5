"""A SubmitJob that is repeated with the same key is answered as the first call, whatever has changed. Decision 0122."""

from datetime import timedelta

import pytest
from aiohttp.test_utils import make_mocked_request
from msgspec.structs import replace

from batchq.api.http.http import BODY
from batchq.domain.catalog import DefinitionRef, QuantityOperation
from batchq.domain.enums import State, Status
from batchq.domain.ids import QueueName
from batchq.errors import BatchqError
from tests.scenarios.test_final_checkpoints_of_dialects import SageMaker
from tests.support import builders
from tests.support.builders import ADMIN, submission
from tests.support.clock import SetClock
from tests.support.scripts import LASTING, Script

pytestmark = pytest.mark.fault("IN22")

DEFAULT = QueueName("default")


@pytest.fixture
def an_hour(simulated):
    """The clock of a server after a reboot that set the clock ahead by an hour."""
    return SetClock(simulated.clock, timedelta(hours=1), boot_id="another")


@pytest.fixture
async def first(world):
    """A submission, and its job, which has ended."""
    request = replace(await world.submission(Script(seconds=0)), key=submission())
    job = await world.submissions.submit(request, caller=world.caller)
    await world.wait_for(job.id, Status.SUCCEEDED)
    return request, job.id


async def disable(world, _request):
    await world.catalog.job_queues.update(DEFAULT, lambda queue: replace(queue, state=State.DISABLED), caller=ADMIN)


async def delete(world, request):
    await disable(world, request)
    await world.catalog.job_queues.delete(DEFAULT, caller=ADMIN)


async def deregister(world, request):
    await world.catalog.definitions.deregister(DefinitionRef(name=request.definition_name, revision=1), caller=ADMIN)


async def require_shares(world, request):
    await delete(world, request)
    await world.catalog.scheduling_policies.create(builders.policy("fair"), caller=ADMIN)
    await world.queue("default", environments=("local",), policy="fair")


@pytest.mark.parametrize("change", [disable, delete, deregister, require_shares])
async def test_a_repeated_submission_returns_the_first_job_after_a_change_that_refuses_others(world, first, change):
    request, job = first
    await change(world, request)

    again = await world.submissions.submit(request, caller=world.caller, strict=True)

    assert again.id == job
    with pytest.raises(BatchqError):
        await world.submissions.submit(replace(request, key=None), caller=world.caller, strict=True)


async def test_a_submission_repeated_after_a_reboot_that_set_the_clock_ahead_returns_the_first_job(simulated, an_hour):
    request = replace(await simulated.submission(Script(seconds=0)), key=submission())
    job = await simulated.submissions.submit(request, caller=simulated.caller)
    await simulated.restart_with_clock(an_hour)
    other = replace(request, key=submission(invocation_id="another"))

    another = await simulated.submissions.submit(other, caller=simulated.caller)
    again = await simulated.submissions.submit(request, caller=simulated.caller)

    assert again.id == job.id != another.id


async def test_a_change_of_a_consumable_resource_repeated_after_a_reboot_is_applied_once(simulated):
    day = SetClock(simulated.clock, timedelta(days=1), boot_id="another")
    await simulated.catalog.consumable_resources.create(builders.consumable("licences", total=10), caller=ADMIN)

    async def add(token):
        return await simulated.catalog.consumable_resources.change_total(
            "licences", operation=QuantityOperation.ADD, quantity=5, token=token, caller=ADMIN
        )

    await add("token")
    await simulated.restart_with_clock(day)
    assert (await add("another")).total == (await add("token")).total == 20
    await simulated.sleep(9 * 3600)  # the units of work of surveys show that the clock has not jumped

    assert (await add("token")).total == 25


async def test_a_round_of_retention_after_a_reboot_keeps_the_keys_of_the_jobs_that_it_keeps(simulated, an_hour):
    request = replace(await simulated.submission(LASTING), key=submission())
    job = await simulated.submissions.submit(request, caller=simulated.caller)
    await simulated.restart_with_clock(an_hour)
    await simulated.store.prune(simulated.clock.now() - timedelta(minutes=30), keep=(), limit=10)

    again = await simulated.submissions.submit(request, caller=simulated.caller)

    assert again.id == job.id


async def test_a_submission_whose_key_was_kept_longer_than_its_job_is_a_new_job(simulated, an_hour):
    request = replace(await simulated.submission(Script(seconds=0)), key=submission())
    first = await simulated.submissions.submit(request, caller=simulated.caller)
    last = await simulated.submissions.submit(replace(request, key=None), caller=simulated.caller)
    for job in (first, last):
        await simulated.wait_for(job.id, Status.SUCCEEDED)
    await simulated.store.prune(simulated.clock.now() + timedelta(seconds=1), keep=(), limit=1)
    assert await simulated.described(first.id) == []
    await simulated.restart_with_clock(an_hour)

    again = await simulated.submissions.submit(request, caller=simulated.caller)

    assert again.id not in {first.id, last.id}
    await simulated.wait_for(again.id, Status.SUCCEEDED)


class RepeatedSageMaker(SageMaker):
    """Each request has the same invocation id, as those that an SDK repeats."""

    def _request(self, body):
        http = make_mocked_request("POST", "/", headers={"amz-sdk-invocation-id": "call"})
        http[BODY] = b"{}"
        return replace(super()._request(body), http=http)


async def test_a_repeated_training_job_is_answered_after_its_queue_was_deleted(simulated):
    sagemaker = RepeatedSageMaker(simulated)
    job = await sagemaker._create(Script(seconds=0))
    await simulated.wait_for(job, Status.SUCCEEDED)

    await delete(simulated, None)

    assert await sagemaker._create(Script(seconds=0)) == job
