"""Decides which RUNNABLE jobs start now and in which environment. Pure.

Jobs are offered to a `FreeCapacity` in the order in which they should start. Environments are tried in the order of
the queue and are never overcommitted. What the first job of a queue waits for is reserved: no other job may delay that
job (`backfill`), so smaller jobs cannot starve a large one. A job that can never fit is unschedulable and blocks none.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.access.accounts import ROOT, AccountName
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, State
from batchq.domain.container import Resources
from batchq.domain.ids import ConsumableName, JobId
from batchq.domain.job import Job, Need, Status
from batchq.domain.scheduling.backfill import Ending, Reservation, Reservations, ends, starts, would_end
from batchq.domain.scheduling.quotas import NO_QUOTAS, Quotas
from batchq.domain.scheduling.resources import (
    GPUS,
    MEMORY,
    Amounts,
    Dimension,
    Stock,
    demand,
    lacking,
    units,
    vcpus,
    vcpus_of,
    within,
)
from batchq.domain.scheduling.usage import UsageSnapshot


class Candidate(Struct, frozen=True, kw_only=True):
    """A RUNNABLE job, as much of it as placing needs. `longest` is its timeout; `priority` its schedulingPriority."""

    job_id: JobId
    order: int
    resources: Resources
    needs: tuple[Need, ...] = ()
    longest: timedelta | None = None
    share: str | None = None
    priority: int = 0
    account: AccountName = ROOT


class Fits(Struct, frozen=True, kw_only=True):
    environment: EnvironmentName


class Waits(Struct, frozen=True, kw_only=True):
    """There is no room now. `known`: nor was there for one like it before."""

    reason: str
    known: bool = False


class Misfit(Struct, frozen=True, kw_only=True):
    reason: str


class Cluster(Struct, frozen=True, kw_only=True):
    """What there is to be shared out. Memory and GPUs are the host's, whichever environment asks.

    `quotas` say of how many vCPUs accounts may have jobs on all environments together.
    """

    environments: Mapping[EnvironmentName, ComputeEnvironment]
    host: Resources
    stocks: Mapping[ConsumableName, Stock]
    quotas: Quotas = NO_QUOTAS

    def enabled(self, names: Sequence[EnvironmentName]) -> list[EnvironmentName]:
        return [it for it in names if it in self.environments and self.environments[it].state is State.ENABLED]

    def amounts(self) -> dict[Dimension, int]:
        """All but the consumable resources: of these there may be thousands that nobody asks for."""
        return {
            MEMORY: self.host.memory_mib,
            GPUS: self.host.gpus,
            **{vcpus(name): it.max_millicpus for name, it in self.environments.items()},
            **{vcpus_of(name): most for name, most in self.quotas.millicpus.items()},
        }


def candidate(job: Job) -> Candidate:
    return Candidate(
        job_id=job.id,
        order=job.order,
        resources=job.spec.resources,
        needs=job.spec.needs,
        longest=job.spec.timeout,
        share=job.spec.share_identifier,
        priority=job.spec.scheduling_priority or 0,
        account=job.spec.owner.account,
    )


def stands_in_line(job: Job) -> bool:
    """Whether it waits for room. No room helps a misfit."""
    return job.status is Status.RUNNABLE and not job.misfit


def usable(machine: Resources) -> Resources:
    """What jobs may reserve of a machine: all but a tenth of its memory, at most 2 GiB, which the rest of it needs."""
    return replace(machine, memory_mib=machine.memory_mib - min(machine.memory_mib // 10, 2048))


class FreeCapacity:
    """What is free of a site, while jobs are offered one after another.

    `promised` says by when those who were set aside for earlier were to start. `promises` are this room's: never later.
    """

    def __init__(
        self, *, site: Cluster, held: UsageSnapshot, now: datetime, promised: Mapping[JobId, datetime] | None = None
    ) -> None:
        self._site = site
        self._held = held
        self._now = now
        self._promised = promised or {}
        self._most = site.amounts()
        self._used_up: set[Dimension] = set()
        self._free = dict(self._most)
        self._asides = Reservations()
        self._too_large: dict[tuple[object, ...], str] = {}  # what did not fit: room only ever gets less
        self._endings: list[Ending] = []  # of those that were placed here
        self.promises: dict[JobId, datetime] = {}
        self._count(held.needed)
        self._hold(self._returning(held.sums), until=None)
        for account, millicpus in held.accounts.items():
            self._hold({vcpus_of(it): millicpus for it in site.quotas.on_millicpus(account)}, until=None)

    @property
    def quotas(self) -> Quotas:
        return self._site.quotas

    def offer(self, job: Candidate, names: Sequence[EnvironmentName]) -> Fits | Waits | Misfit:
        """A place in the first of these environments with room, taken at once; else what it needs is set aside."""
        outcome = self.squeeze(job, names)
        if isinstance(outcome, Waits):
            self._set_aside(job, self._able(job, names))
        return outcome

    def squeeze(self, job: Candidate, names: Sequence[EnvironmentName]) -> Fits | Waits | Misfit:
        """The same for one behind a job that waits: nothing is set aside for it."""
        until = would_end(job.longest, self._now)
        before = self._asides.before(until)
        shape = (job.resources, job.needs, tuple(names), self._site.quotas.on_millicpus(job.account), before)
        known = self._too_large.get(shape)
        if known is not None:
            return Waits(reason=known, known=True)
        able = self._able(job, names)
        if not able:
            return self._hopeless(job, names)
        there = self._beside(before)
        for name, wanted in able.items():
            if within(wanted, there):
                self._take(wanted, until)
                return Fits(environment=name)
        reason = self._too_large[shape] = status_reasons.no_room(*lacking(next(iter(able.values())), there))
        return Waits(reason=reason)

    def at_limit(self, job: Candidate, names: Sequence[EnvironmentName]) -> AccountName | None:
        """The highest account whose limit is in the way of a job now; none of one that could not start anyway.

        That one asks for more than a limit, or than its environments have, or these are disabled.
        """
        binding = self._site.quotas.on_millicpus(job.account)
        if not binding or not self._able(job, names):
            return None
        there = self._beside(self._asides.before(would_end(job.longest, self._now)))
        return next((it for it in reversed(binding) if job.resources.millicpus > there[vcpus_of(it)]), None)

    def closed(self, names: Sequence[EnvironmentName]) -> bool:
        """Whether nothing is left on these environments for anybody, however small and short."""
        there = self._beside(self._asides.before(self._now))
        return there[MEMORY] <= 0 or all(there[vcpus(name)] <= 0 for name in self._site.enabled(names))

    def full(self, names: Sequence[EnvironmentName]) -> bool:
        """Whether nothing is left there even for one whom nobody kept from it."""
        return self._free[MEMORY] <= 0 or all(self._free[vcpus(name)] <= 0 for name in self._site.enabled(names))

    def could_hold(self, job: Candidate, names: Sequence[EnvironmentName]) -> bool:
        """Whether an enabled one of these environments would hold it if nothing else ran."""
        return bool(self._able(job, names))

    def _able(self, job: Candidate, names: Sequence[EnvironmentName]) -> dict[EnvironmentName, Amounts]:
        """What it would take on each enabled environment that could ever hold it."""
        if job.needs:
            self._count(need.resource for need in job.needs)
        wanted = {name: self._demand(job, name) for name in self._site.enabled(names)}
        return {name: amounts for name, amounts in wanted.items() if within(amounts, self._most)}

    def _demand(self, job: Candidate, environment: EnvironmentName) -> Amounts:
        wanted = demand(job.resources, job.needs, environment)
        if self._site.quotas.millicpus and job.resources.millicpus > 0:
            wanted |= {vcpus_of(it): job.resources.millicpus for it in self._site.quotas.on_millicpus(job.account)}
        return wanted

    def _count(self, resources: Iterable[ConsumableName]) -> None:
        """Know from now on how much there is of these."""
        for resource in resources:
            of, stock = units(resource), self._site.stocks.get(resource)
            if stock is not None and of not in self._most:
                self._most[of] = self._free[of] = stock.amount
                if not stock.returns:
                    self._used_up.add(of)

    def _beside(self, before: int) -> Mapping[Dimension, int]:
        """What is free and not kept for the first so many of those who wait."""
        kept = self._asides.kept_for(before)
        return {of: amount - kept.get(of, 0) for of, amount in self._free.items()} if kept else self._free

    def _set_aside(self, job: Candidate, able: Mapping[EnvironmentName, Amounts]) -> None:
        """On every environment that could hold it, for nobody knows which will be the first to."""
        if not able:
            return
        there = self._beside(self._asides.before(None))
        known = (starts(list(able.values()), there, self._all_endings()), self._promised.get(job.job_id))
        promise = min((it for it in known if it is not None), default=None)
        if promise is not None:
            self.promises[job.job_id] = promise
        amounts = {of: amount for wanted in able.values() for of, amount in wanted.items()}
        limits = {vcpus_of(it) for it in self._site.quotas.on_millicpus(job.account)}
        reserved = {of: amounts.pop(of) for of in (limits | self._used_up) & amounts.keys()}
        self._too_large.clear()  # the same number of asides may be others now
        self._asides.add(Reservation(amounts=amounts, starts=promise, reserved=reserved))

    def _hopeless(self, job: Candidate, names: Sequence[EnvironmentName]) -> Waits | Misfit:
        """With no environment enabled nobody can say; the job waits."""
        enabled = self._site.enabled(names)
        if not enabled:
            return Waits(reason=status_reasons.NO_ENVIRONMENT)
        for need in job.needs:
            if need.resource not in self._site.stocks:
                return Misfit(reason=status_reasons.no_such_resource(need.resource))
        for account in self._site.quotas.on_millicpus(job.account):
            if job.resources.millicpus > (most := self._most[vcpus_of(account)]):
                return Misfit(reason=status_reasons.beyond_limit(account, job.resources.millicpus, most))
        most = max(self._site.environments[name].max_millicpus for name in enabled)
        if job.resources.millicpus > most:
            return Misfit(reason=status_reasons.too_many_vcpus(job.resources.millicpus, most))
        wanted = self._demand(job, enabled[0])
        wanting = {of: (wanted[of], self._most.get(of, 0)) for of in lacking(wanted, self._most)}
        for need in job.needs:
            if (of := units(need.resource)) in wanting:
                return Misfit(reason=status_reasons.too_many_units(need.resource, *wanting[of]))
        hosts = {MEMORY: "MiB of memory", GPUS: "GPUs"}
        return Misfit(reason=status_reasons.too_large((hosts[of], *wanting[of]) for of in hosts if of in wanting))

    def _take(self, wanted: Amounts, until: datetime | None) -> None:
        """What does not come back is gone for those who wait, too."""
        returning = self._returning(wanted)
        for of in wanted.keys() - returning.keys():
            self._too_large.clear()
            self._free[of] -= wanted[of]
            self._most[of] -= wanted[of]
        self._hold(returning, until=until)

    def _hold(self, amounts: Amounts, *, until: datetime | None) -> None:
        for of, amount in amounts.items():
            if of in self._free:  # a deleted environment's last jobs may still run
                self._free[of] -= amount
        if until is not None:
            self._endings.append(Ending(at=until, amounts=amounts))

    def _all_endings(self) -> list[Ending]:
        return [*self._endings_under_way, *self._endings]

    @cached_property
    def _endings_under_way(self) -> list[Ending]:
        """Worked out when the first has to wait, for all who do."""
        endings = []
        for job in self._held.timed():
            at = ends(job, self._now)
            if at is not None and job.attempt is not None:
                wanted = self._demand(candidate(job), EnvironmentName(job.attempt.environment))
                endings.append(Ending(at=at, amounts=self._returning(wanted)))
        return endings

    def _returning(self, wanted: Amounts) -> Amounts:
        return {of: amount for of, amount in wanted.items() if of not in self._used_up}
