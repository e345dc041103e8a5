"""The catalog's long calls, in short."""

from batchq.domain.catalog import State
from tests.support import builders
from tests.support.builders import ADMIN


async def make_environment(catalog, name="local", **changes):
    return await catalog.compute_environments.create(builders.environment(name, **changes), caller=ADMIN)


async def make_queue(catalog, name="default", **changes):
    return await catalog.job_queues.create(builders.queue(name, **changes), caller=ADMIN)


async def disabled_queue(catalog, name="default", **changes):
    return await make_queue(catalog, name, state=State.DISABLED, **changes)


async def make_policy(catalog, name="fair", **changes):
    return await catalog.scheduling_policies.create(builders.policy(name, **changes), caller=ADMIN)


async def make_consumable(catalog, name="licences", **changes):
    return await catalog.consumable_resources.create(builders.consumable(name, **changes), caller=ADMIN)
