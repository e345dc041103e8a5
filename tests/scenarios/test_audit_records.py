"""Each change is saved together with its audit record, and no other change has one."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain.access.audit import AuditQuery
from batchq.domain.enums import Role, Status
from batchq.errors import BatchqError
from tests.support.builders import ADMIN
from tests.support.scripts import Script

LONG = Script(seconds=60, on_term=1, output=("ready",))
UNKNOWN = "00000000-0000-4000-8000-000000000000"
ADA = replace(ADMIN, user="ada", account="team", role=Role.OPERATOR, key="BQIA1", request_id="a-request")


@pytest.fixture
def world(simulated):
    return simulated


@pytest.fixture
async def ada(world):
    """A function that makes the user ada the caller of an operation. Async, so that the change ends with the test."""

    def ada(operation):
        world.caller = replace(ADA, operation=operation)

    ada("SubmitJob")
    return ada


async def acts(world, **fields):
    """The operations and outcomes of the audit records, oldest first."""
    found = [record.record for record in await world.store.audit_records(AuditQuery(limit=1000, **fields))]
    assert {(record.user, record.account, record.key, record.request_id) for record in found} <= {
        ("ada", "team", "BQIA1", "a-request")
    }
    return [(record.operation, record.outcome) for record in reversed(found)]


async def test_each_request_about_a_job_has_one_audit_record(world, ada):
    job = await world.start(LONG)

    ada("CancelJob")
    await world.cancel(job)
    ada("TerminateJob")
    await world.terminate(job)
    await world.wait_for(job, Status.FAILED)

    recorded = await acts(world, resource=f"job/{job}")
    assert recorded == [("SubmitJob", "SUBMITTED"), ("CancelJob", "RUNNING"), ("TerminateJob", "RUNNING")]


async def test_a_request_that_changes_nothing_has_no_audit_record(world, ada):
    job = await world.run()
    before = await acts(world)

    ada("TerminateJob")
    await world.cancel(job)
    await world.terminate(job)
    await world.terminate(UNKNOWN)

    assert await acts(world) == before


async def test_a_request_that_is_not_saved_has_no_audit_record(world, ada):
    job = await world.start(LONG)

    ada("TerminateJob")
    world.store.failing = True
    with pytest.raises(BatchqError):
        await world.terminate(job)
    world.store.failing = False

    assert await acts(world, operation="TerminateJob") == []
    await world.terminate(job)
    await world.wait_for(job, Status.FAILED)
    assert await acts(world, operation="TerminateJob") == [("TerminateJob", "RUNNING")]


async def test_a_bulk_stop_has_an_audit_record_and_one_for_each_job(world, ada):
    running = await world.start(LONG)
    waiting = await world.submit_many(3, LONG, millicpus=1_000_000)

    ada("TerminateJobs")
    await world.terminate_all()
    await world.wait_for(running, Status.FAILED)

    recorded = await acts(world, operation="TerminateJobs")
    assert recorded[0] == ("TerminateJobs", "requested")
    assert sorted(recorded[1:]) == [("TerminateJobs", "STOPPING"), *[("TerminateJobs", "TERMINATED")] * 3]
    assert await acts(world, resource=f"job/{waiting[0]}") == [
        ("SubmitJob", "SUBMITTED"),
        ("TerminateJobs", "TERMINATED"),
    ]


async def test_a_bulk_stop_has_no_audit_record_for_an_unchanged_job(world, ada):
    job = await world.start(Script(seconds=60, on_term=5, output=("ready",)))
    ada("TerminateJobs")
    await world.terminate_all(job)

    await world.terminate_all(job, reason="again")

    assert await acts(world, operation="TerminateJobs", resource=f"job/{job}") == [("TerminateJobs", "STOPPING")]


async def test_audit_records_of_a_bulk_stop_name_its_user_after_a_restart(world):
    many = await world.submit_many(700, LONG, millicpus=1_000_000)
    world.caller = replace(ADA, operation="CancelJobs")
    request = asyncio.create_task(world.cancel_all())
    await world.wait_until(many[-1], lambda job: job.status is Status.FAILED)

    await world.restart()
    request.cancel()
    await world.wait_until(many[0], lambda other_job: other_job.status is Status.FAILED)

    assert len(await acts(world, operation="CancelJobs")) == 1 + len(many)
