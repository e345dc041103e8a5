"""The machines on which containers run. Pure.

A container engine has at least one machine, and Docker has exactly one. A job fits where one machine has the room for
it, or for each of its nodes.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, Tags, engine_of, machine_labels_of
from batchq.domain.container import Resources
from batchq.domain.enums import MachineState
from batchq.domain.ids import ContainerEngineName, MachineName

#: The name of the machine of a container engine that has exactly one. A container without a machine runs there.
LOCAL = MachineName("local")


class Machine(Struct, frozen=True, kw_only=True):
    """A machine, as the container engine reports it."""

    #: Unique among the machines of the container engine.
    name: MachineName
    #: All resources of the machine or, with `is_enforced`, those that the container engine leaves to batchq.
    resources: Resources
    #: Whether the container engine refuses a container that requests more than `resources` leave. Otherwise vCPUs are
    #: shares of a busy machine, which only compute environments limit, and a part of the memory is kept for the system.
    is_enforced: bool = False
    #: How many nodes of jobs run there at once; None: without limit.
    max_nodes: int | None = None
    #: The container engine, such as `docker`.
    engine: ContainerEngineName = ContainerEngineName("")
    #: The version of the container engine; empty: not known.
    engine_version: str = ""
    #: Whether that is the first engine of the server, which environments select that name no engine.
    is_of_first_engine: bool = True
    #: Whether its engine does not answer, so that a survey does not list its containers.
    is_unlisted: bool = False
    #: Whether it stands for all machines of a container engine that has not answered since the server began. Its
    #: resources are not known.
    is_whole_engine: bool = False
    #: Containers that started there before this time ended with their engine or machine; None: not known.
    lost_before: datetime | None = None
    #: What compute environments select it by.
    labels: Tags = ()
    #: The only compute environment whose jobs run there; None: those of all that select it.
    environment: EnvironmentName | None = None
    #: Whether an operator of the container engine excludes the machine from new containers.
    is_cordoned: bool = False
    #: Since when the machine does not answer the container engine; None: it answers. Its containers may still run.
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


class MachineSelection(Struct, frozen=True, kw_only=True):
    """Which machines run the jobs of a compute environment."""

    #: The container engine; None: the first one of the server.
    engine: ContainerEngineName | None
    #: The labels that a machine must have.
    labels: Tags
    #: The environment, if machines are reserved for it.
    environment: EnvironmentName | None

    def includes(self, machine: Machine) -> bool:
        if not (machine.is_of_first_engine if self.engine is None else machine.engine == self.engine):
            return False
        has_labels = {*machine.labels}.issuperset(self.labels)
        return machine.is_whole_engine or (machine.environment in (None, self.environment) and has_labels)


def machine_selection(
    environment: ComputeEnvironment, reserved: Collection[EnvironmentName | None]
) -> MachineSelection:
    """The machines that the environment selects. `reserved`: the environments for which machines are reserved."""
    return MachineSelection(
        engine=engine_of(environment.tags),
        labels=machine_labels_of(environment.tags),
        environment=environment.name if environment.name in reserved else None,
    )


def machine_of(name: MachineName | None, machines: Mapping[MachineName, Machine]) -> Machine | None:
    """The machine of a container; None: it has left.

    `name`: as saved with the container. An unknown machine may belong to a container engine that has not answered yet.
    """
    known = machines.get(name or LOCAL)
    return known or next((machine for machine in machines.values() if machine.is_whole_engine), None)


def usable(machine: Resources) -> Resources:
    """What jobs may reserve of a machine: all but a tenth of its memory, at most 2 GiB, for the system itself."""
    return replace(machine, memory_mib=machine.memory_mib - min(machine.memory_mib // 10, 2048))


def usable_machine(machine: Machine) -> Machine:
    """The machine with the resources that jobs may reserve."""
    return machine if machine.is_enforced else replace(machine, resources=usable(machine.resources))


def one_machine(resources: Resources, engine: str = "", version: str = "") -> tuple[Machine, ...]:
    """The machines of a container engine that has exactly one."""
    return (Machine(name=LOCAL, resources=resources, engine=ContainerEngineName(engine), engine_version=version),)
