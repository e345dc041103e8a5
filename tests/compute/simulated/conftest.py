"""Simulated containers live in virtual time."""

import pytest

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.container import Resources
from batchq.domain.machines import one_machine
from tests.support.clock import (
    VirtualClock,
    pytest_asyncio_loop_factories,  # noqa: F401 - a hook
)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def runtime(clock):
    spec = SimulatedRuntime(clock=clock, machines=one_machine(Resources(millicpus=4000, memory_mib=4096)))
    yield spec
    await spec.close()
