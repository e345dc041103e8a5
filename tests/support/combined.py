"""Two simulated engines as one runtime."""

from msgspec.structs import replace

from batchq.compute.combined_runtime import CombinedRuntime
from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.container import Resources
from batchq.domain.ids import ContainerEngineName, MachineName
from batchq.domain.machines import Machine, one_machine
from batchq.ports.clock import Clock

HERE, THERE = ContainerEngineName("docker"), ContainerEngineName("kubernetes")
NODE = MachineName("n1")


class TwoEngines(CombinedRuntime):
    """Places each container without a machine on the second engine, as the scheduler does in a server."""

    def __init__(self, first: SimulatedRuntime, second: SimulatedRuntime, clock: Clock) -> None:
        super().__init__({HERE: first, THERE: second}, clock)
        self.first, self.second = first, second
        #: Of the second engine, as `SimulatedRuntime` has them.
        self.engine, self.faults = second.engine, second.faults

    async def create(self, launch):
        return await super().create(launch if launch.machine else replace(launch, machine=NODE))


def two_engines(clock: Clock, host: Resources) -> TwoEngines:
    """The first engine has one machine, as Docker; the second one has a node."""
    node = Machine(name=NODE, resources=host, is_enforced=True)
    first = SimulatedRuntime(clock=clock, machines=one_machine(host), engine_id="first")
    return TwoEngines(first, SimulatedRuntime(clock=clock, machines=(node,), engine_id="second"), clock)
