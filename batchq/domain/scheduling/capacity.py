"""Placement: which RUNNABLE jobs start now, and on which compute environment. Pure.

The scheduler offers jobs to `FreeCapacity` in the order in which they should start. A job is placed on the first
enabled environment of its queue that has enough free resources, on machines of that environment with room for each of
its nodes; nothing is overcommitted. The first job of a queue that
does not fit now is the head of the queue. The resources that a head needs are reserved, and later jobs start only if
they do not delay it (`backfill`), so smaller jobs cannot starve a large one. A job that could never fit is
unschedulable, and delays no other job.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from msgspec import Struct

from batchq.domain import status_reasons
from batchq.domain.access.accounts import ROOT, AccountName
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, engine_of
from batchq.domain.container import Resources
from batchq.domain.enums import State, Status
from batchq.domain.ids import ConsumableName, ContainerEngineName, JobId, MachineName
from batchq.domain.job import ConsumableRequirement, Job
from batchq.domain.scheduling.backfill import (
    Ending,
    Reservation,
    Reservations,
    latest_end,
    latest_end_if_placed,
)
from batchq.domain.scheduling.free_machines import FreeMachines, Rooms, Waiting, never_fits_reason
from batchq.domain.scheduling.machine_rooms import UNLIMITED, MachineSet
from batchq.domain.scheduling.quotas import NO_QUOTAS, Quotas
from batchq.domain.scheduling.resources import (
    GPUS,
    MEMORY,
    Amounts,
    Dimension,
    Stock,
    UsageSnapshot,
    demand,
    fits,
    shortfalls,
    units,
    vcpus,
    vcpus_of,
)
from batchq.domain.task import NodeRun


class Candidate(Struct, frozen=True, kw_only=True):
    """What placement needs to know of a RUNNABLE job."""

    job_id: JobId
    #: The order of submission.
    sequence: int
    #: The sum of all nodes.
    resources: Resources
    #: What each node requests; empty: the job has one node.
    nodes: tuple[NodeRun, ...] = ()
    #: The container engines that can run it; empty: all.
    engines: tuple[ContainerEngineName, ...] = ()
    #: Consumable resources.
    requirements: tuple[ConsumableRequirement, ...] = ()
    #: The timeout; None: none.
    timeout: timedelta | None = None
    #: The share identifier; None in a queue without a fair-share policy.
    share: str | None = None
    #: AWS's schedulingPriority: the higher starts first within a share.
    priority: int = 0
    account: AccountName = ROOT

    @property
    def runs(self) -> tuple[NodeRun, ...]:
        """What each node requests."""
        return self.nodes or (NodeRun(resources=self.resources),)


class Fits(Struct, frozen=True, kw_only=True):
    """The job is placed on this environment."""

    environment: EnvironmentName
    #: The machine of each node; empty: the container engine has only one.
    machines: tuple[MachineName, ...] = ()


class Insufficient(Struct, frozen=True, kw_only=True):
    """The job does not fit now."""

    #: The status reason.
    reason: str
    #: Whether a job with the same demand was refused before in this pass, beside the same reservations.
    known: bool = False


class Unschedulable(Struct, frozen=True, kw_only=True):
    """No environment could hold the job even if nothing else ran. `reason`: the status reason."""

    reason: str


class Cluster(Struct, frozen=True, kw_only=True):
    """The total capacity of all compute environments, in use or not."""

    environments: Mapping[EnvironmentName, ComputeEnvironment]
    #: The machines of the server. Environments that select the same machines share their memory and GPUs; vCPUs are
    #: each environment's too.
    machines: MachineSet
    stocks: Mapping[ConsumableName, Stock]
    #: The limits of accounts on vCPUs over all environments.
    quotas: Quotas = NO_QUOTAS

    @property
    def host(self) -> Resources:
        """What jobs may reserve of all machines together."""
        return self.machines.total

    def enabled(self, names: Sequence[EnvironmentName]) -> list[EnvironmentName]:
        """The environments of `names` that exist and are ENABLED, in the same order."""
        return [name for name in names if name in self.environments and self.environments[name].state is State.ENABLED]

    def feasible(
        self, names: Sequence[EnvironmentName], engines: Collection[ContainerEngineName]
    ) -> list[EnvironmentName]:
        """The enabled environments on one of the container engines; no engines: all that are enabled."""
        enabled, first = self.enabled(names), self.machines.first_engine
        if not engines:
            return enabled
        return [name for name in enabled if (engine_of(self.environments[name].tags) or first) in engines]

    def amounts(self) -> dict[Dimension, int]:
        """The capacity in every dimension but consumable resources: there may be thousands that no job needs."""
        unknown = UNLIMITED if self.machines.is_partly_unknown else 0
        return {
            MEMORY: unknown or self.machines.total.memory_mib,
            GPUS: unknown or self.machines.total.gpus,
            **{vcpus(name): environment.max_millicpus for name, environment in self.environments.items()},
            **{vcpus_of(name): most for name, most in self.quotas.millicpus.items()},
        }


def candidate_of_job(job: Job) -> Candidate:
    """What placement needs to know of the job."""
    return Candidate(
        job_id=job.id,
        sequence=job.sequence,
        resources=job.spec.nodes.resources,
        nodes=job.spec.nodes.runs if job.spec.nodes.count > 1 else (),
        engines=job.spec.engines,
        requirements=job.spec.needs,
        timeout=job.spec.timeout,
        share=job.spec.share_identifier,
        priority=job.spec.scheduling_priority or 0,
        account=job.spec.owner.account,
    )


def is_queued_for_placement(job: Job) -> bool:
    """Whether the job is waiting to be placed: RUNNABLE, not unschedulable and not held."""
    return job.status is Status.RUNNABLE and not job.unschedulable and job.hold is None


class FreeCapacity:
    """The free capacity of the cluster during one placement pass: each placed job and each reservation reduces it.

    `usage`: the resources in use when the pass begins. `promised`: the latest start of each blocked job that earlier
    passes stored. `promises`: the latest starts that this pass found; none is later than the stored one. `planned`: the
    machines that earlier passes reserved for blocked jobs. `plans`: those that this pass reserved.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        usage: UsageSnapshot,
        now: datetime,
        promised: Mapping[JobId, datetime] | None = None,
        planned: Mapping[JobId, Sequence[MachineName]] | None = None,
    ) -> None:
        self._cluster = cluster
        #: The limits of accounts that the pass applies.
        self.quotas = cluster.quotas
        self._usage = usage
        self._now = now
        self._promised = promised or {}
        self._machines = FreeMachines(cluster.machines, usage, planned or {})
        self._total = cluster.amounts()
        self._consumed: set[Dimension] = set()
        self._free = dict(self._total)
        self._reservations = Reservations()
        self._refused: dict[tuple[object, ...], str] = {}  # reasons by shape: within a pass capacity only shrinks
        self._endings: list[Ending] = []  # of the jobs placed in this pass
        self.promises: dict[JobId, datetime] = {}
        self.plans = self._machines.plans
        self._count(usage.needed)
        self._add_ending(self._returning(usage.sums), until=None)
        for account, millicpus in usage.accounts.items() if self.quotas.millicpus else ():
            self._add_ending({vcpus_of(name): millicpus for name in self.quotas.on_millicpus(account)}, until=None)
        self._free |= self._machines.sums()

    def place_or_reserve(self, job: Candidate, names: Sequence[EnvironmentName]) -> Fits | Insufficient | Unschedulable:
        """Place the job on the first of these environments that has room; if none has, reserve what the job needs."""
        outcome = self.place_if_no_delay(job, names)
        if isinstance(outcome, Insufficient):
            self._reserve(job, self._demands(job, names))
        return outcome

    def place_if_no_delay(
        self, job: Candidate, names: Sequence[EnvironmentName]
    ) -> Fits | Insufficient | Unschedulable:
        """As `place_or_reserve`, without a reservation: for a job behind a waiting head, which it must not delay."""
        until = latest_end_if_placed(job.timeout, self._now)
        before = self._reservations.before(until)
        quotas = self.quotas.on_millicpus(job.account)
        shape = (job.resources, job.nodes, job.engines, job.requirements, tuple(names), quotas, before)
        known = self._refused.get(shape)
        if known is not None:
            return Insufficient(reason=known, known=True)
        demands = self._demands(job, names)
        if not demands:
            return self._why_never(job, names)
        unreserved, kept = self._unreserved(before), self._machines.reserved(self._reservations, before)
        runs = job.runs
        for name, amounts in demands.items():
            if fits(amounts, unreserved):
                machines = self._machines.find(job.job_id, runs, name, kept)
                if machines is not None:
                    self._take(amounts, until, self._machines.take(runs, machines) if machines else ())
                    return Fits(environment=name, machines=self._cluster.machines.names(machines) if machines else ())
        lacking = self._machines.lacking(*next(iter(demands.items())), unreserved)
        reason = status_reasons.no_room(*lacking) if lacking else status_reasons.NO_MACHINE
        self._refused[shape] = reason
        return Insufficient(reason=reason)

    def at_limit(self, job: Candidate, names: Sequence[EnvironmentName]) -> AccountName | None:
        """The highest account in the tree whose vCPU limit the job would exceed now; None if no limit blocks the job.

        Also None for a job that could not start anyway, because it requests more than a limit or an environment has, or
        because all its environments are disabled.
        """
        binding = self.quotas.on_millicpus(job.account)
        if not binding or not self._demands(job, names):
            return None
        unreserved = self._unreserved(self._reservations.before(latest_end_if_placed(job.timeout, self._now)))
        return next((name for name in reversed(binding) if job.resources.millicpus > unreserved[vcpus_of(name)]), None)

    def closed(self, names: Sequence[EnvironmentName]) -> bool:
        """Whether not even the smallest and shortest job could start on one of these environments now."""
        before = self._reservations.before(self._now)
        unreserved = self._unreserved(before)
        enabled = self._cluster.enabled(names)
        if unreserved[MEMORY] <= 0 or all(unreserved[vcpus(name)] <= 0 for name in enabled):
            return True
        return self._machines.is_full(enabled, self._machines.reserved(self._reservations, before))

    def full(self, names: Sequence[EnvironmentName]) -> bool:
        """Whether all memory, or all vCPUs of these environments, are in use. Reservations do not count as use."""
        enabled = self._cluster.enabled(names)
        if self._free[MEMORY] <= 0 or all(self._free[vcpus(name)] <= 0 for name in enabled):
            return True
        return self._machines.is_full(enabled)

    def could_hold(self, job: Candidate, names: Sequence[EnvironmentName]) -> bool:
        """Whether one of these environments is enabled and could hold the job if nothing else ran."""
        return bool(self._demands(job, names))

    def _demands(self, job: Candidate, names: Sequence[EnvironmentName]) -> dict[EnvironmentName, Amounts]:
        """The job's demand on each enabled environment that could hold it if nothing else ran."""
        if job.requirements:
            self._count(need.resource for need in job.requirements)
        demands: dict[EnvironmentName, Amounts] = {}
        for name in self._cluster.feasible(names, job.engines):
            amounts = self._demand(job, name)
            if fits(amounts, self._total) and self._cluster.machines.could_hold(job.runs, name):
                demands[name] = amounts
        return demands

    def _demand(self, job: Candidate, environment: EnvironmentName) -> Amounts:
        amounts = demand(job.resources, job.requirements, environment)
        if self.quotas.millicpus and job.resources.millicpus > 0:
            limited = {vcpus_of(name): job.resources.millicpus for name in self.quotas.on_millicpus(job.account)}
            return {**amounts, **limited}
        return amounts

    def _count(self, resources: Iterable[ConsumableName]) -> None:
        """Add these consumable resources to the dimensions that this object counts."""
        for resource in resources:
            dimension, stock = units(resource), self._cluster.stocks.get(resource)
            if stock is not None and dimension not in self._total:
                self._total[dimension] = self._free[dimension] = stock.amount
                if not stock.returns:
                    self._consumed.add(dimension)

    def _unreserved(self, before: int) -> Mapping[Dimension, int]:
        """What is free beside the first `before` reservations; `before` is a result of `Reservations.before`."""
        kept = self._reservations.reserved_for(before)
        return (
            {dimension: amount - kept.get(dimension, 0) for dimension, amount in self._free.items()}
            if kept
            else self._free
        )

    def _reserve(self, job: Candidate, demands: Mapping[EnvironmentName, Amounts]) -> None:
        """Reserve on every environment that could hold the job: which of them has room first is not known."""
        if not demands:
            return
        unreserved = self._unreserved(self._reservations.before(None))
        endings = [*self._known_endings, *self._endings]
        waiting = Waiting(job_id=job.job_id, runs=job.runs, demands=demands, unreserved=unreserved, endings=endings)
        starts, rooms = self._machines.plan(waiting, self._reservations)
        known = (starts, self._promised.get(job.job_id))
        promise = min((moment for moment in known if moment is not None), default=None)
        if promise is not None:
            self.promises[job.job_id] = promise
        environments = self._cluster.environments
        parts = [self._machines.beside(environments[name], amounts) for name, amounts in demands.items()]
        amounts = {dimension: amount for part in parts for dimension, amount in part.items()}
        limits = {vcpus_of(name) for name in self.quotas.on_millicpus(job.account)}
        reserved = {dimension: amounts.pop(dimension) for dimension in (limits | self._consumed) & amounts.keys()}
        self._refused.clear()  # its keys contain a number of reservations, which now stands for others
        self._reservations.add(Reservation(amounts=amounts, starts=promise, reserved=reserved, rooms=rooms))

    def _why_never(self, job: Candidate, names: Sequence[EnvironmentName]) -> Insufficient | Unschedulable:
        """Why no environment can hold the job. If none is enabled, that is not known and the job waits."""
        enabled = self._cluster.feasible(names, job.engines)
        if not enabled:
            return self._without_environment(job, names)
        for need in job.requirements:
            if need.resource not in self._cluster.stocks:
                return Unschedulable(reason=status_reasons.no_such_resource(need.resource))
        for account in self.quotas.on_millicpus(job.account):
            if job.resources.millicpus > (most := self._total[vcpus_of(account)]):
                return Unschedulable(reason=status_reasons.beyond_limit(account, job.resources.millicpus, most))
        most = max(self._cluster.environments[name].max_millicpus for name in enabled)
        if job.resources.millicpus > most:
            return Unschedulable(reason=status_reasons.too_many_vcpus(job.resources.millicpus, most))
        amounts = self._demand(job, enabled[0])
        excess = {
            dimension: (amounts[dimension], self._total.get(dimension, 0))
            for dimension in shortfalls(amounts, self._total)
        }
        for need in job.requirements:
            if (dimension := units(need.resource)) in excess:
                return Unschedulable(reason=status_reasons.too_many_units(need.resource, *excess[dimension]))
        selected = self._cluster.machines.selected(enabled)
        if not selected or not self._machines.is_one:
            return Unschedulable(reason=never_fits_reason(job.runs, selected))
        hosts = {MEMORY: "MiB of memory", GPUS: "GPUs"}
        return Unschedulable(
            reason=status_reasons.too_large(
                (hosts[dimension], *excess[dimension]) for dimension in hosts if dimension in excess
            )
        )

    def _without_environment(self, job: Candidate, names: Sequence[EnvironmentName]) -> Insufficient | Unschedulable:
        """A job waits while no environment is enabled, unless those that are enabled cannot run it."""
        if self._cluster.enabled(names):
            return Unschedulable(reason=never_fits_reason(job.runs, ()))
        return Insufficient(reason=status_reasons.NO_ENVIRONMENT)

    def _take(self, amounts: Amounts, until: datetime | None, rooms: Rooms) -> None:
        """Use the resources until `until`; None: the end is not known. `rooms`: what is returned on machines.

        Units that are not returned also reduce the total capacity.
        """
        returning = self._returning(amounts)
        for dimension in amounts.keys() - returning.keys():
            self._refused.clear()
            self._free[dimension] -= amounts[dimension]
            self._total[dimension] -= amounts[dimension]
        self._add_ending(returning, until=until, rooms=rooms)

    def _add_ending(self, amounts: Amounts, *, until: datetime | None, rooms: Rooms = ()) -> None:
        for dimension, amount in amounts.items():
            if dimension in self._free:  # a deleted environment's last jobs may still run
                self._free[dimension] -= amount
        if until is not None:
            self._endings.append(Ending(at=until, amounts=amounts, rooms=rooms))

    @cached_property
    def _known_endings(self) -> list[Ending]:
        """The endings of the jobs that held resources when the pass began, computed when the first job has to wait."""
        endings = []
        for job in self._usage.timed():
            at = latest_end(job, self._now)
            if at is not None and job.attempt is not None:
                amounts = self._demand(candidate_of_job(job), EnvironmentName(job.attempt.environment))
                endings.append(Ending(at=at, amounts=self._returning(amounts), rooms=self._machines.held_by(job)))
        return endings

    def _returning(self, amounts: Amounts) -> Amounts:
        if not self._consumed:
            return amounts
        return {dimension: amount for dimension, amount in amounts.items() if dimension not in self._consumed}
