"""Jobs that require consumable resources: what they hold, wait for and use up."""

import pytest

from batchq.domain.catalog import QuantityOperation, ResourceKind
from batchq.domain.enums import Status
from batchq.domain.ids import ConsumableName
from batchq.services.catalog import Quantities
from tests.support import builders
from tests.support.builders import ADMIN
from tests.support.scripts import Script

LICENCES = ConsumableName("licences")
LONG = Script(seconds=600)


@pytest.fixture
def there(world):
    """Make the resource, with so many units."""

    async def there(total, kind=ResourceKind.REPLENISHABLE):
        await world.catalog.consumable_resources.create(
            builders.consumable(LICENCES, total=total, kind=kind), caller=ADMIN
        )

    return there


def quantities(world):
    return world.catalog.consumable_resources.quantities(world.catalog.consumables[LICENCES])


async def test_a_job_holds_its_units_until_it_ends(world, there):
    await there(10)

    job = await world.start(LONG, needs={LICENCES: 4})
    held = quantities(world)
    await world.terminate(job)
    await world.wait_for(job, Status.FAILED)

    assert held == Quantities(total=10, in_use=4, available=6)
    assert quantities(world) == Quantities(total=10, in_use=0, available=10)


async def test_consumed_units_are_not_released(world, there):
    await there(10, ResourceKind.NON_REPLENISHABLE)

    await world.run(needs={LICENCES: 4})
    await world.restart()

    assert quantities(world) == Quantities(total=6, in_use=0, available=6)


async def test_a_resource_created_again_has_all_its_units(world, there):
    await there(4, ResourceKind.NON_REPLENISHABLE)
    await world.run(needs={LICENCES: 4})
    await world.catalog.consumable_resources.delete(LICENCES, caller=ADMIN)

    await there(4, ResourceKind.NON_REPLENISHABLE)

    await world.run(needs={LICENCES: 4})
    assert quantities(world).total == 0


async def test_each_attempt_consumes_units(world, there):
    await there(10, ResourceKind.NON_REPLENISHABLE)

    await world.run(Script(seconds=0, exit_code=1), Status.FAILED, needs={LICENCES: 4}, attempts=2)

    assert quantities(world).total == 2


async def test_a_job_waits_for_units_and_starts_when_there_are_more(world, there):
    await there(1)

    job = await world.submit(needs={LICENCES: 2})
    await world.wait_for(job, Status.RUNNABLE)
    await world.catalog.consumable_resources.change_total(
        LICENCES, operation=QuantityOperation.ADD, quantity=1, token=None, caller=ADMIN
    )

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_job_waits_for_units_held_by_another_job(world, there):
    await there(1)
    first = await world.start(LONG, needs={LICENCES: 1})

    second = await world.submit(needs={LICENCES: 1})
    await world.wait_for(second, Status.RUNNABLE)
    await world.terminate(first)

    await world.wait_for(second, Status.SUCCEEDED)


async def test_a_job_that_waits_for_units_is_next_in_the_snapshot(world, there):
    await there(1)
    await world.start(LONG, needs={LICENCES: 1})
    waiting = [await world.submit(LONG, needs={LICENCES: 1}) for _ in range(2)]
    for job in waiting:
        await world.wait_for(job, Status.RUNNABLE)

    snapshot = await world.jobs.snapshot("default", caller=ADMIN)

    assert [job for job, _ in snapshot.jobs] == waiting
    assert snapshot.millicpus == 250
    assert all(since <= snapshot.updated_at for _, since in snapshot.jobs)
