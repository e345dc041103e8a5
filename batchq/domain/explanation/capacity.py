"""Why a RUNNABLE job does not fit: what it requires, what is free, and who holds the rest. Pure."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain import status_reasons, wording
from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import EnvironmentName, JobQueue
from batchq.domain.container import Resources
from batchq.domain.explanation.capacity_reasons import (
    AboveAccountLimitReason,
    AccountLimitReason,
    NoMachineSelectedReason,
    ReservedForOthersReason,
    ReservedForSharesReason,
    ResourceMissingReason,
    TooLargeForMachinesReason,
    TooLargeReason,
    TooManyUnitsReason,
    TooManyVcpusReason,
    WaitsForGpusReason,
    WaitsForMachineReason,
    WaitsForMemoryReason,
    WaitsForUnitsReason,
    WaitsForVcpusReason,
    WaitsReason,
)
from batchq.domain.explanation.explanation import Explanation, Fact, Figure, Figures
from batchq.domain.explanation.facts import Holding, Reader, RelatedJobs, SchedulerState
from batchq.domain.ids import ConsumableName
from batchq.domain.job import Job
from batchq.domain.machines import Machine
from batchq.domain.scheduling.capacity import Cluster, FreeCapacity, Unschedulable, candidate_of_job
from batchq.domain.scheduling.resources import GPUS, MEMORY, Dimension, units, vcpus
from batchq.domain.task import total

_LIMIT = status_reasons.beyond_limit("|", 0, 0).partition("|")[0]
_MISSING = status_reasons.no_such_resource("|").partition("|")[0]
_UNITS = status_reasons.too_many_units("|", 0, 0).partition("|")[0]
_AT_LIMIT = status_reasons.at_limit("|").partition("|")[0]


class Blocked(Struct, frozen=True, kw_only=True):
    """What blocks a job."""

    reason: type[Explanation]
    figures: Figures


class Shortage(Struct, frozen=True, kw_only=True):
    """A dimension in which a job does not fit."""

    reason: type[WaitsReason]
    dimension: Dimension
    required: int
    #: Not held by active jobs; reserved or not.
    free: int
    limit: int
    #: The compute environment or the consumable resource, by the name of its figure; empty for memory and GPUs.
    names: Figures = field(default_factory=dict)


def never(job: Job, queue: JobQueue | None, state: SchedulerState, reader: Reader) -> Explanation | None:
    """The explanation of a RUNNABLE job that can never be placed; None: it could be.

    The scheduler marks such a job as unschedulable when it tries to place it. In a full queue that may be much later.
    """
    if job.unschedulable:
        return _explain_never(job, queue, state.cluster, reader, job.status_reason or "")
    if queue is None or state.cluster is None or state.idle is None or job.blocked_at is not None:
        return None
    return never_fits(job, queue, state.cluster, reader, idle=state.idle)


def never_fits(
    job: Job, queue: JobQueue, cluster: Cluster, reader: Reader, *, idle: FreeCapacity
) -> Explanation | None:
    """The explanation that the job would get as unschedulable; None: it could be placed.

    None also if no environment of the queue is enabled: then the job waits. `idle`: the capacity if no job ran.
    """
    candidate = candidate_of_job(job)
    if idle.could_hold(candidate, queue.environments):
        return None
    outcome = idle.place_if_no_delay(candidate, queue.environments)
    if not isinstance(outcome, Unschedulable):
        return None
    return _explain_never(job, queue, cluster, reader, outcome.reason)


def blocked(
    job: Job, queue: JobQueue, neighbours: RelatedJobs, state: SchedulerState, reader: Reader
) -> Blocked | None:
    """What blocks a RUNNABLE job itself; None for a job that waits behind others."""
    cluster = state.cluster
    assert cluster is not None, "the capacity is not known"
    at_limit = _at_limit(job, cluster, state, reader)
    if at_limit is not None:
        return at_limit
    if job.blocked_at is None:
        return None
    if job.status_reason == status_reasons.KEPT_FOR_SHARES:
        return _kept_for_shares(job, queue, state)
    if not any(machine.is_open for machine in _selected(queue, cluster)):
        return _no_machine(job, queue, cluster, state)
    shortage = _shortage(job, queue, cluster, state)
    if shortage is None:
        return _no_machine(job, queue, cluster, state) or _reserved(job, queue, neighbours, state, reader)
    return _short(shortage, state, reader)


def _explain_never(
    job: Job, queue: JobQueue | None, cluster: Cluster | None, reader: Reader, reason: str
) -> Explanation:
    found = _never(job, queue, cluster, reader, reason)
    return found.reason(since=job.blocked_at, figures={"jobQueue": Figure.text(job.spec.queue)} | found.figures)


def _never(job: Job, queue: JobQueue | None, cluster: Cluster | None, reader: Reader, reason: str) -> Blocked:
    size = job.spec.resources
    if reason.startswith(_LIMIT):
        limits = {} if cluster is None else cluster.quotas.millicpus
        binding = () if cluster is None else cluster.quotas.on_millicpus(job.spec.owner.account)
        account = next((name for name in binding if size.millicpus > limits[name]), None)
        figures = {} if account is None else _account_figures(account, size.millicpus, limits[account], reader)
        return Blocked(reason=AboveAccountLimitReason, figures=figures)
    if reason.startswith(_MISSING):
        missing = (need.resource for need in job.spec.needs if cluster and need.resource not in cluster.stocks)
        resource = next(missing, None)
        return Blocked(
            reason=ResourceMissingReason, figures={} if resource is None else {"resource": Figure.text(resource)}
        )
    if reason.startswith(_UNITS):
        return Blocked(reason=TooManyUnitsReason, figures=_unit_figures(job, cluster))
    if reason.startswith(status_reasons.TOO_MANY_VCPUS):
        most = _largest(queue, cluster)
        figures = {} if most is None else {"required": Figure.vcpus(size.millicpus), "limit": Figure.vcpus(most)}
        return Blocked(reason=TooManyVcpusReason, figures=figures)
    if reason == status_reasons.NO_MACHINE_SELECTED:
        return Blocked(reason=NoMachineSelectedReason, figures={})
    if reason.startswith(status_reasons.TOO_LARGE_FOR_MACHINES):
        machines = {} if cluster is None or queue is None else {"machines": Figure(len(_selected(queue, cluster)))}
        return Blocked(reason=TooLargeForMachinesReason, figures={"required": _required(job)} | machines)
    return Blocked(reason=TooLargeReason, figures={} if cluster is None else _host_figures(job, cluster))


def _account_figures(account: AccountName, millicpus: int, limit: int, reader: Reader) -> Figures:
    shown = account if reader.sees_account(account) else None
    return {
        "required": Figure.vcpus(millicpus),
        "limit": Figure.vcpus(limit),
        "account": Figure(shown, reader.account(account)),
    }


def _unit_figures(job: Job, cluster: Cluster | None) -> Figures:
    for need in job.spec.needs:
        stock = None if cluster is None else cluster.stocks.get(need.resource)
        if stock is not None and need.quantity > stock.amount:
            return {
                "resource": Figure.text(need.resource),
                "required": Figure.count(need.quantity),
                "limit": Figure.count(stock.amount),
            }
    return {}


def _host_figures(job: Job, cluster: Cluster) -> Figures:
    size, host = job.spec.resources, cluster.host
    figures: Figures = {}
    required, limits = [], []
    if size.memory_mib > host.memory_mib:
        figures |= {"requiredMemoryMiB": Figure(size.memory_mib), "memoryMiB": Figure(host.memory_mib)}
        required.append(f"{wording.memory_words(size.memory_mib)} of memory")
        limits.append(wording.memory_words(host.memory_mib))
    if size.gpus > host.gpus:
        figures |= {"requiredGpus": Figure(size.gpus), "gpus": Figure(host.gpus)}
        required.append(wording.counted(size.gpus, "GPU"))
        limits.append(wording.counted(host.gpus, "GPU"))
    if figures:
        figures |= {
            "required": Figure(words=wording.list_words(required)),
            "limit": Figure(words=wording.list_words(limits)),
        }
    return figures


def _largest(queue: JobQueue | None, cluster: Cluster | None) -> int | None:
    """The vCPUs of the largest enabled environment of the queue, in thousandths; None without one."""
    if queue is None or cluster is None:
        return None
    sizes = [cluster.environments[name].max_millicpus for name in cluster.enabled(queue.environments)]
    return max(sizes, default=None)


def _at_limit(job: Job, cluster: Cluster, state: SchedulerState, reader: Reader) -> Blocked | None:
    """The account whose vCPU limit blocks the job: all are in use, or they are kept for another of its jobs."""
    required, limits = job.spec.resources.millicpus, cluster.quotas.millicpus
    binding = cluster.quotas.on_millicpus(job.spec.owner.account)
    used = {name: _used_by(name, cluster, state) for name in binding}
    account = next((name for name in reversed(binding) if used[name] + required > limits[name]), None)
    reason = job.status_reason or ""
    if account is None and reason.startswith(_AT_LIMIT):
        account = next((name for name in binding if reason == status_reasons.at_limit(name)), None)
    if account is None:
        return None
    figures = _account_figures(account, required, limits[account], reader)
    figures["used"] = Figure(used[account] / 1000, wording.figure(used[account]))
    return Blocked(reason=AccountLimitReason, figures=figures)


def _used_by(account: AccountName, cluster: Cluster, state: SchedulerState) -> int:
    """The vCPUs in use by an account and the accounts below it, in thousandths."""
    return sum(used for name, used in state.usage.accounts.items() if account in cluster.quotas.on_millicpus(name))


def _kept_for_shares(job: Job, queue: JobQueue, state: SchedulerState) -> Blocked:
    policy = None if queue.policy is None else state.policies.get(queue.policy)
    figures = {"required": Figure.vcpus(job.spec.resources.millicpus)}
    if policy is not None:
        figures["reservation"] = Figure(policy.reservation, str(policy.reservation))
    return Blocked(reason=ReservedForSharesReason, figures=figures)


def _shortage(job: Job, queue: JobQueue, cluster: Cluster, state: SchedulerState) -> Shortage | None:
    """The first dimension in which the job does not fit beside the active jobs; None: it fits in an environment."""
    shortages: list[Shortage] = []
    for environment in cluster.enabled(queue.environments):
        found = _shortages(job, environment, cluster, state)
        if not found:
            return None
        shortages += found
    feasible = [shortage for shortage in shortages if shortage.required <= shortage.limit]
    return next(iter(feasible or shortages), None)


def _shortages(job: Job, environment: EnvironmentName, cluster: Cluster, state: SchedulerState) -> list[Shortage]:
    size, held = job.spec.resources, state.usage.sums

    def shortage(
        reason: type[WaitsReason], dimension: Dimension, required: int, limit: int, **names: Figure
    ) -> Shortage:
        free = limit - held.get(dimension, 0)
        return Shortage(reason=reason, dimension=dimension, required=required, free=free, limit=limit, names=names)

    limit = cluster.environments[environment].max_millicpus
    cpus = shortage(
        WaitsForVcpusReason, vcpus(environment), size.millicpus, limit, computeEnvironment=Figure.text(environment)
    )
    memory = shortage(WaitsForMemoryReason, MEMORY, size.memory_mib, cluster.host.memory_mib)
    gpus = shortage(WaitsForGpusReason, GPUS, size.gpus, cluster.host.gpus)
    if not cluster.machines.is_one:
        rooms, most = state.usage.free_rooms(cluster.machines), cluster.machines.millicpus(environment)
        cpus = replace(cpus, free=min(cpus.free, rooms.free_millicpus(environment)), limit=min(limit, most))
        those = total(machine.resources for machine in cluster.machines.selected([environment]))
        free_memory_mib, free_gpus = rooms.free_memory_and_gpus(environment)
        memory = replace(memory, free=free_memory_mib, limit=those.memory_mib)
        gpus = replace(gpus, free=free_gpus, limit=those.gpus)
    shortages = [
        cpus,
        memory,
        gpus,
        *(_unit_shortage(need.resource, need.quantity, cluster, state) for need in job.spec.needs),
    ]
    return [shortage for shortage in shortages if shortage.required > shortage.free]


def _unit_shortage(resource: ConsumableName, required: int, cluster: Cluster, state: SchedulerState) -> Shortage:
    stock, dimension = cluster.stocks.get(resource), units(resource)
    limit = 0 if stock is None else stock.amount
    held = state.usage.sums.get(dimension, 0) if stock is not None and stock.returns else 0
    return Shortage(
        reason=WaitsForUnitsReason,
        dimension=dimension,
        required=required,
        free=limit - held,
        limit=limit,
        names={"resource": Figure.text(resource)},
    )


def _short(shortage: Shortage, state: SchedulerState, reader: Reader) -> Blocked:
    required, free, limit = shortage.required, max(0, shortage.free), shortage.limit
    figures = {"required": _amount(shortage, required), "free": _number(shortage, free)}
    figures |= {"limit": _number(shortage, limit)} | shortage.names
    held = state.holders.holding(shortage.dimension)
    if held.jobs:
        figures |= _holders(held, state.now, reader)
    return Blocked(reason=shortage.reason, figures=figures)


def _number(shortage: Shortage, amount: int) -> Figure:
    """An amount that follows one with its unit."""
    if shortage.reason is WaitsForVcpusReason:
        return Figure(amount / 1000, wording.figure(amount))
    return Figure.memory(amount) if shortage.reason is WaitsForMemoryReason else Figure.count(amount)


def _amount(shortage: Shortage, amount: int) -> Figure:
    """An amount with its unit."""
    if shortage.reason is WaitsForVcpusReason:
        return Figure.vcpus(amount)
    return Figure.count(amount, "GPU") if shortage.reason is WaitsForGpusReason else _number(shortage, amount)


def _holders(held: Holding, now: datetime, reader: Reader) -> Figures:
    """The jobs that hold a resource, and which of them must end first, with the time `left`.

    That job is the word `stopping` if it was ordered to stop, and `earliest` if it has a time limit.
    """
    seen = [job for job in held.jobs if reader.sees(job)][: wording.MAX_LISTED]
    rest = len(held.jobs) - len(seen)
    others = [wording.counted(rest, "other job") if seen else wording.counted(rest, "job")] if rest else []
    figures = {
        "heldBy": Figure(len(held.jobs)),
        "holders": Figure(_named(seen), wording.joined([*map(reader.job, seen), *others])),
    }
    if held.first_to_end is not None:
        ends_by, first = held.first_to_end
        figures["endsBy"] = Figure(ends_by)
        figures["earliest" if first.stop is None else "stopping"] = Figure(words=reader.job(first))
        figures["left"] = Figure(words=wording.duration_words(ends_by - now))
    return figures


def _named(jobs: Sequence[Job]) -> tuple[Fact, ...]:
    return tuple({"jobId": job.id, "jobName": job.spec.name} for job in jobs)


def _reserved(
    job: Job, queue: JobQueue, neighbours: RelatedJobs, state: SchedulerState, reader: Reader
) -> Blocked | None:
    """The job fits, but what it requires is reserved for heads of queues before its own; None without such heads."""
    before = {
        name
        for name, other_queue in state.queues.items()
        if name != queue.name and other_queue.priority >= queue.priority
    }
    heads = [(name, neighbours.jobs.get(head.job_id)) for name, head in state.heads.items() if name in before]
    if not heads:
        return None
    known = [(name, other_job) for name, other_job in heads if other_job is not None and reader.sees(other_job)]
    seen = known[: wording.MAX_LISTED]
    others = len(heads) - len(seen)
    parts = [f"{reader.job(other_job)} in {reader.queue(name)}" for name, other_job in seen]
    parts += [wording.counted(others, "job", "jobs") + " before it"] if others else []
    figures = {
        "required": Figure(job.spec.resources.millicpus / 1000, _requirements(job.spec.resources)),
        "reservedFor": Figure(_named([other_job for _, other_job in seen]), wording.joined(parts)),
    }
    return Blocked(reason=ReservedForOthersReason, figures=figures)


def _selected(queue: JobQueue, cluster: Cluster) -> Sequence[Machine]:
    """The machines that run jobs of the queue."""
    return cluster.machines.selected(cluster.enabled(queue.environments))


def _no_machine(job: Job, queue: JobQueue, cluster: Cluster, state: SchedulerState) -> Blocked | None:
    """No machine has the room, although all together have; None: the machines have room for each node."""
    if cluster.machines.is_one:
        return None
    rooms, runs = state.usage.free_rooms(cluster.machines), job.spec.nodes.runs
    if any(rooms.find(runs, name, {}) is not None for name in cluster.enabled(queue.environments)):
        return None
    machines = _selected(queue, cluster)
    closed = sum(not machine.is_open for machine in machines)
    figures = {"required": _required(job)}
    if closed < len(machines):
        figures["machines"] = Figure.count(len(machines), "machine")
    if closed:
        figures["closed"] = Figure.count(closed)
    return Blocked(reason=WaitsForMachineReason, figures=figures)


def _required(job: Job) -> Figure:
    """What each node of the job requests."""
    nodes = job.spec.nodes
    if nodes.count == 1:
        return Figure(job.spec.resources.millicpus / 1000, _requirements(job.spec.resources))
    parts = [f"{wording.counted(run.count, 'node')} with {_requirements(run.resources)}" for run in nodes.runs]
    return Figure(job.spec.resources.millicpus / 1000, wording.joined(parts))


def _requirements(size: Resources) -> str:
    """As `2 vCPUs, 4 GiB of memory and 1 GPU`."""
    parts = [wording.vcpus_words(size.millicpus)] if size.millicpus else []
    parts.append(f"{wording.memory_words(size.memory_mib)} of memory")
    parts += [wording.counted(size.gpus, "GPU")] if size.gpus else []
    return wording.list_words(parts)
