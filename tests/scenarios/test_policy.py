"""A job may use of the machine what its account may when it starts: faults.md 3, SE10."""

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Account, Caller, ContainerPolicy, User
from batchq.domain.catalog import Network
from batchq.domain.job import Status
from batchq.errors import Invalid
from tests.support.scripts import LASTING, Script, lasting

NETWORK = Network.BRIDGE  # which each account may have, and the host's not
LOOSE, TIGHT = ContainerPolicy(), ContainerPolicy(root=False)
REFUSED = (
    "CannotCreateContainerError: User '0' of a container, whose user and group are not numbers above 0, "
    "is not allowed to account lab."
)
AS_ROOT = {"user": "0", "millicpus": 4000}


@pytest.fixture
async def ada(world):
    """She submits from now on, for a lab whose containers may run as root."""
    world.people = replace(world.people, users=world.people.users | {"ada": User(name="ada", account="lab")})
    world.caller = Caller(user="ada", account="lab", allowance=LOOSE)
    allow(world, LOOSE)


def allow(world, allowance):
    lab = Account(name="lab", allowance=allowance)
    world.people = replace(world.people, accounts={"lab": lab})


@pytest.mark.fault("SE10")
async def test_a_job_that_waits_while_its_policy_is_tightened_is_not_started(world, ada):
    first = await world.submit(Script(seconds=60, on_term=1, output=("ready",)), **AS_ROOT)
    await world.wait_for_output(first, "ready")
    job = await world.submit(Script(), attempts=3, **AS_ROOT)

    allow(world, TIGHT)
    await world.terminate(first)

    done = await world.wait_for(job, Status.FAILED, status_reason="Task failed to start")
    (attempt,) = done.attempts
    assert attempt.reason == REFUSED
    assert "create" not in await world.engine_calls(job)


@pytest.mark.fault("SE10")
async def test_a_policy_loosened_again_before_the_start_has_no_effect(world, ada):
    first = await world.submit(Script(seconds=60, on_term=1, output=("ready",)), **AS_ROOT)
    await world.wait_for_output(first, "ready")
    job = await world.submit(Script(), **AS_ROOT)

    allow(world, TIGHT)
    allow(world, LOOSE)
    await world.terminate(first)

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_running_container_continues_and_is_not_retried(world, ada):
    job = await world.submit(lasting(7, output=("ready",)), attempts=3, **AS_ROOT)
    await world.wait_for_output(job, "ready")

    allow(world, TIGHT)
    await world.finish(job)

    done = await world.wait_for(job, Status.FAILED, status_reason="Task failed to start")
    assert [it.exit_code for it in done.attempts] == [7, None]


async def test_a_job_of_an_admin_has_the_rights_of_its_submitters_present_role(world, ada):
    allow(world, TIGHT)
    world.caller = Caller(user="tester", account="lab", role="ADMIN")

    job = await world.submit(Script(), **AS_ROOT)

    await world.wait_for(job, Status.SUCCEEDED)


@pytest.mark.fault("SE09")
async def test_a_forbidden_submission_is_refused(world, ada):
    submission = await world.submission(**AS_ROOT)
    world.caller = replace(world.caller, allowance=TIGHT)

    with pytest.raises(Invalid, match="is not allowed to account lab"):
        await world.jobs.submit(submission, caller=world.caller)
    with pytest.raises(Invalid, match="is not allowed to account lab"):
        await world.submission(**AS_ROOT)


async def test_a_container_started_before_a_crash_continues(world, ada):
    world.runtime.hold("start")
    job = await world.submit(LASTING, **AS_ROOT)
    await world.wait_for_call(job, "start")
    await world.crash_after("start")

    allow(world, TIGHT)
    await world.boot()
    await world.finish(job)

    await world.wait_for(job, Status.SUCCEEDED)
