"""A submission is checked against what its caller may see: dependencies and queues."""

import pytest

from batchq.domain.access.accounts import Caller, Owner
from batchq.domain.job import Dependency, DependencyType
from batchq.errors import Invalid
from tests.engine.desk import LOOKED, ONE, TWO, desk_over, submit
from tests.support.builders import job, job_id

ADA = Caller(user="ada", account="team")
CORA = Caller(user="cora", account="lab", coordinates=frozenset({"lab", "team"}))
BOB = Owner(user="bob", account="team")
UNKNOWN = job_id(77)


async def answered(desk, message):
    """What whoever submitted is told."""
    await desk.process(message)
    try:
        return (await message.answer).id
    except Invalid as why:
        return str(why)


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("more", [{}, {"array_size": 3}])
@pytest.mark.parametrize("kind", [None, DependencyType.N_TO_N, DependencyType.SEQUENTIAL])
async def test_a_dependency_on_an_invisible_job_is_refused_as_missing(kind, more):
    theirs = job(owner=BOB, **more)
    desk = await desk_over(theirs)

    refused = await answered(
        desk, submit(ONE, caller=ADA, depends_on=[Dependency(job_id=theirs.id, type=kind)], **more)
    )
    unknown = await answered(desk, submit(TWO, caller=ADA, depends_on=[Dependency(job_id=UNKNOWN, type=kind)], **more))

    assert refused.replace(theirs.id, UNKNOWN) == unknown == f"Job {UNKNOWN} in dependsOn does not exist."


@pytest.mark.fault("SE08")
async def test_a_dependency_on_an_unspawned_child_of_an_invisible_array_is_refused():
    theirs = job(owner=BOB, array_size=3)
    desk = await desk_over(theirs)

    assert "does not exist" in await answered(desk, submit(ONE, caller=ADA, depends_on=[f"{theirs.id}:1"]))


async def test_a_coordinator_may_depend_on_jobs_of_the_accounts_below():
    theirs = job(owner=BOB)
    desk = await desk_over(theirs)

    assert await answered(desk, submit(ONE, caller=CORA, depends_on=[theirs.id])) == ONE


@pytest.mark.fault("SE08")
async def test_a_queue_that_became_invisible_before_the_unit_of_work_is_not_found():
    desk = await desk_over()
    barred = Caller(user="ada", queues=frozenset({"night"}))

    await desk.process(LOOKED)

    assert await answered(desk, submit(ONE, caller=barred)) == "JobQueue default not found."
    assert await answered(desk, submit(TWO, caller=ADA)) == TWO
