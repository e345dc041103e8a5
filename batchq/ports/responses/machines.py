"""The machines of the container engine."""

from msgspec import Struct, field

from batchq.domain.enums import MachineState
from batchq.ports.responses.jobs import JobRow
from batchq.ports.responses.server import CapacityResponse, EngineResponse, VcpusResponse


class MachineRow(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One machine. The limits are what jobs may reserve. Jobs that the caller may not see are part of `requested`."""

    #: Unique on the server.
    machine: str
    state: MachineState
    #: Since when it does not answer, in milliseconds since 1970; absent while it answers.
    away_since: int | None = None
    #: The only compute environment whose jobs run there; absent: those of all.
    compute_environment: str | None = None
    #: On Docker the processors, of which the compute environments may allow more or less.
    vcpus: VcpusResponse
    memory_mib: CapacityResponse = field(name="memoryMiB")
    gpus: CapacityResponse
    #: How many nodes of jobs run there at once; absent without a limit.
    nodes: CapacityResponse | None = None
    #: STARTING and RUNNING jobs on the machine, the first one that started first; at most `maxJobs`.
    jobs: tuple[JobRow, ...]
    #: How many STARTING and RUNNING jobs are on the machine.
    job_count: int


class MachinesResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The response of listmachines."""

    machines: tuple[MachineRow, ...]
    #: The number of all machines that match, by state; absent while the container engine has not answered yet.
    counts: dict[MachineState, int] | None = None
    #: While the container engine does not answer, the machines are as it last reported them.
    engine: EngineResponse
    #: Continues the list; absent on the last page.
    next_token: str | None = None
