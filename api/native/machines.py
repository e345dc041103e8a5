"""ListMachines: the machines of the container engine, with their room and the jobs on them."""

from typing import Annotated

from pydantic import Field

from batchq.api.http.http import RequestBody, Word
from batchq.api.native.job_search import JobArns, arns_of, job_row
from batchq.api.native.job_selection import bare_name
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.domain.catalog import EnvironmentName
from batchq.domain.times import optional_milliseconds
from batchq.errors import NotFound
from batchq.ports.responses.machines import MachineRow, MachinesResponse
from batchq.ports.responses.server import CapacityResponse, EngineResponse, VcpusResponse
from batchq.services.job_views import JobView
from batchq.services.machines import MachineOverview, MachineQuery

MAX_MACHINES = 100
MAX_JOBS = 20  # of one machine

operations = OperationTable()


class ListMachinesRequest(RequestBody):
    """The machines to list."""

    #: Name or ARN: only machines that run jobs of this compute environment.
    compute_environment: Word | None = None
    max_results: Annotated[int, Field(ge=1, le=MAX_MACHINES)] = MAX_MACHINES
    #: How many jobs of each machine are listed.
    max_jobs: Annotated[int, Field(ge=0, le=MAX_JOBS)] = 5
    next_token: str | None = None


@operations.add("ListMachines", "POST", "/v1/batchq/listmachines", Permission.SELF)
async def list_machines(parts: Parts, call: Call[ListMachinesRequest]) -> MachinesResponse:
    """Lists the machines of the container engine: first those that are AWAY, then CORDONED, then READY, each by name.

    Docker has one machine, `local`. The machines of Kubernetes are the nodes of the cluster whose taints permit
    jobs. Resources are requested by jobs of all users. Only jobs that the caller may see are counted and listed.
    """
    body, caller = call.input, call.caller
    environment = None if body.compute_environment is None else bare_name(body.compute_environment)
    if environment is not None and environment not in parts.catalog.environments:
        raise NotFound(f"Compute environment {environment[:128]} does not exist.")
    token = "ListMachines", caller.user, environment or "", ""
    query = MachineQuery(
        environment=None if environment is None else EnvironmentName(environment),
        after=None if body.next_token is None else parts.tokens.read(token, body.next_token),
        limit=body.max_results,
        max_jobs=body.max_jobs,
    )
    page, arns = parts.overviews.machines(query, caller=caller), arns_of(call.http, parts)
    state, sentence = parts.overviews.state(caller=caller)
    return MachinesResponse(
        machines=tuple(_row(machine, arns) for machine in page.machines),
        counts=None if page.counts is None else dict(page.counts),
        engine=EngineResponse(state=state, sentence=sentence),
        next_token=None if page.next is None else parts.tokens.make(token, page.next),
    )


def _row(overview: MachineOverview, arns: JobArns) -> MachineRow:
    machine, requested = overview.machine, overview.requested
    resources, most = machine.resources, machine.max_nodes
    return MachineRow(
        machine=machine.name,
        state=machine.state,
        away_since=optional_milliseconds(machine.away_since),
        compute_environment=machine.environment,
        vcpus=VcpusResponse(limit=resources.millicpus / 1000, requested=requested.millicpus / 1000),
        memory_mib=CapacityResponse(limit=resources.memory_mib, requested=requested.memory_mib),
        gpus=CapacityResponse(limit=resources.gpus, requested=requested.gpus),
        nodes=None if most is None else CapacityResponse(limit=most, requested=overview.nodes),
        jobs=tuple(job_row(JobView(job=job), arns) for job in overview.jobs),
        job_count=overview.job_count,
    )
