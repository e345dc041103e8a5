"""The machines on which containers run. Pure.

A container engine has at least one machine, and Docker has exactly one. A job fits where one machine has the room for
it, or for each of its nodes.
"""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.enums import MachineState
from batchq.domain.ids import MachineName

#: The name of the machine of an engine that has exactly one.
LOCAL = MachineName("local")


class Machine(Struct, frozen=True, kw_only=True):
    """A machine, as the container engine reports it."""

    #: Unique among the machines of the engine.
    name: MachineName
    #: All resources of the machine or, with `is_enforced`, those that the engine leaves to batchq.
    resources: Resources
    #: Whether the engine refuses a container that requests more than `resources` leave. Otherwise vCPUs are shares of a
    #: busy machine, which only compute environments limit, and a part of the memory is kept for the system.
    is_enforced: bool = False
    #: How many nodes of jobs run there at once; None: without limit.
    max_nodes: int | None = None
    #: The only compute environment whose jobs run there; None: those of all.
    environment: EnvironmentName | None = None
    #: Whether an operator of the engine excludes the machine from new containers.
    is_cordoned: bool = False
    #: Since when the machine does not answer the engine; None: it answers. Its containers may still run.
    away_since: datetime | None = None

    @property
    def state(self) -> MachineState:
        """A machine that does not answer is AWAY, cordoned or not."""
        if self.away_since is not None:
            return MachineState.AWAY
        return MachineState.CORDONED if self.is_cordoned else MachineState.READY

    @property
    def is_open(self) -> bool:
        """Whether containers may be started there."""
        return self.state is MachineState.READY


def usable(machine: Resources) -> Resources:
    """What jobs may reserve of a machine: all but a tenth of its memory, at most 2 GiB, for the system itself."""
    return replace(machine, memory_mib=machine.memory_mib - min(machine.memory_mib // 10, 2048))


def usable_machine(machine: Machine) -> Machine:
    """The machine with the resources that jobs may reserve."""
    return machine if machine.is_enforced else replace(machine, resources=usable(machine.resources))


def one_machine(resources: Resources) -> tuple[Machine, ...]:
    """The machines of an engine that has exactly one."""
    return (Machine(name=LOCAL, resources=resources),)
