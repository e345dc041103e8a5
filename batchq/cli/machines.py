"""The machines of the server in the command line: a table of those of a compute environment, and lines of `top`."""

from argparse import Namespace
from collections.abc import Mapping
from datetime import datetime

from batchq.cli.http_client import call
from batchq.cli.output import is_terminal, uses_color, write_line
from batchq.cli.quantities import format_duration, local_time
from batchq.cli.tables import Column, print_nested, text_column, time_column
from batchq.domain.enums import MachineState, ServerState
from batchq.ports.responses.machines import MachineRow, MachinesResponse
from batchq.ports.responses.server import CapacityResponse, VcpusResponse
from batchq.system.escapes import escape

LIST_MACHINES = "/v1/batchq/listmachines"
BAR_WIDTH = 10  # characters
MIB = 1024  # MiB of a GiB
NAMED_JOBS = 3  # of one machine
MAX_MACHINES = 6  # lines of `top`
STYLES = {MachineState.AWAY: "red", MachineState.CORDONED: "yellow", MachineState.READY: ""}


def fetch_machines(url: str, environment: str) -> MachinesResponse:
    """All machines that run jobs of the environment, from as many pages as are needed."""
    rows: list[MachineRow] = []
    token: Mapping[str, object] = {}
    while True:
        page = call(url, LIST_MACHINES, {"computeEnvironment": environment, **token}, answer=MachinesResponse)
        rows += page.machines
        if page.next_token is None:
            return MachinesResponse(machines=tuple(rows), counts=page.counts, engine=page.engine)
        token = {"nextToken": page.next_token}


def fetch_first_machines(url: str) -> MachinesResponse:
    """The machines that `top` shows: those that do not answer or are cordoned come first."""
    return call(url, LIST_MACHINES, {"maxResults": MAX_MACHINES, "maxJobs": NAMED_JOBS}, answer=MachinesResponse)


def print_machines(args: Namespace, response: MachinesResponse) -> None:
    """Print the machines of an environment, below its settings: as a table, or with TABs behind the word `machine`."""
    if is_terminal():
        write_line("")
        if response.engine.state is ServerState.AWAY:
            write_line(escape(response.engine.sentence))
        if not response.machines and response.counts is not None:
            write_line("No machine runs jobs of this compute environment.")
    print_nested("machine", response.machines, _columns(), color=uses_color(args.color))


def _columns() -> list[Column[MachineRow]]:
    return [
        text_column("MACHINE", lambda row: row.machine, elastic=True),
        Column(title="STATE", full=lambda row: row.state.value, style=lambda row: STYLES[row.state]),
        time_column("AWAY SINCE", lambda row: row.away_since),
        text_column("VCPUS", lambda row: use_text(row.vcpus), right=True),
        text_column("MEMORY MIB", lambda row: use_text(row.memory_mib), right=True),
        text_column("GPUS", lambda row: use_text(row.gpus), right=True),
        text_column("JOBS", lambda row: row.job_count, right=True),
        text_column("FIRST JOBS", lambda row: " ".join(job.job_name for job in row.jobs), elastic=True),
    ]


def machine_lines(response: MachinesResponse, present: datetime) -> list[str]:
    """The lines of `top`: a line for each machine. Of one machine that is READY the capacity tells all. Not escaped."""
    counts = response.counts or {}
    number = sum(counts.values())
    if number == counts.get(MachineState.READY, 0) <= 1:
        return []
    lines = [_machine_line(row, present) for row in response.machines]
    if number > len(lines):
        states = ", ".join(f"{counts[state]} {state.value}" for state in MachineState if counts.get(state))
        lines.append(f"{number} machines: {states}; batchq env show ENVIRONMENT lists them")
    return lines


def _machine_line(row: MachineRow, present: datetime) -> str:
    away = local_time(row.away_since)
    state = "" if row.state is MachineState.READY else f" {row.state.value}"
    state += f" for {format_duration(present - away)}" if away is not None else ""
    gpus = f"   GPUs {usage_bar(row.gpus)}" if row.gpus.limit else ""
    room = f"vCPUs {usage_bar(row.vcpus)}   memory {usage_bar(row.memory_mib, unit=MIB)} GiB{gpus}"
    return f"{row.machine:<16}{state} {room}   {_jobs_text(row)}"


def _jobs_text(row: MachineRow) -> str:
    """`3 jobs: train, blast, align`."""
    names = [job.job_name for job in row.jobs[:NAMED_JOBS]]
    shown = f": {', '.join(names)}" if names else ""
    more = ", ..." if row.job_count > len(names) else ""
    return f"{row.job_count} {'job' if row.job_count == 1 else 'jobs'}{shown}{more}"


def use_text(amounts: VcpusResponse | CapacityResponse) -> str:
    """`2/8`: what is requested, and the limit; `?` for an unknown one."""
    return f"{amounts.requested:g}/{'?' if amounts.limit is None else f'{amounts.limit:g}'}"


def usage_bar(amounts: VcpusResponse | CapacityResponse, *, unit: int = 1) -> str:
    """`6.5 of 8 [########..]`; without a known limit, only what is requested."""
    requested, limit = amounts.requested / unit, amounts.limit
    if not limit:
        return f"{requested:.3g}"
    filled = min(BAR_WIDTH, round(BAR_WIDTH * amounts.requested / limit))
    return f"{requested:.3g} of {limit / unit:.3g} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"
