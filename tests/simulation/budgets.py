"""Random budgets and prices, and what must hold of them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, UserName
from batchq.domain.access.audit import AuditQuery
from batchq.domain.budgets import (
    Budget,
    BudgetKey,
    BudgetScope,
    Crossing,
    present_crossings,
    reached,
    stop_kind,
    stop_reason,
)
from batchq.domain.cost import cost_of, hourly, run_time
from batchq.domain.enums import FINISHED, BudgetLimit, BudgetPeriod, StopKind
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_rules import YET_TO_COME
from batchq.domain.prices import Prices
from batchq.engine.budgets import OPERATIONS
from batchq.engine.loop import EngineLoop
from batchq.ports.jobs import Changes
from tests.simulation.choices import Choices
from tests.simulation.clocks import StoredTimes
from tests.simulation.container_records import ContainerRecords
from tests.simulation.run_log import Checks, RunLog
from tests.simulation.submissions import QUEUES, TEAM

CURRENCY = "EUR"
PRICES = Prices(currency=CURRENCY, vcpu_hour=Decimal(1), gib_hour=Decimal(1))
KEYS = (
    BudgetKey(BudgetScope.ACCOUNT, TEAM),
    BudgetKey(BudgetScope.ACCOUNT, ROOT),
    *(BudgetKey(BudgetScope.QUEUE, queue) for queue in QUEUES),
)
AMOUNTS = tuple(map(Decimal, ("0", "0.0001", "0.001", "0.003", "0.01", "0.05")))  # short jobs cost 0.0001 to 0.02
ROUNDING = Decimal("0.000001")


def prices(choices: Choices) -> Prices | None:
    """The prices of the next server: the same but in runs with budgets, some of whose servers have none."""
    dear = replace(PRICES, vcpu_hour=Decimal(5))
    return choices.budgets.choice([PRICES, PRICES, PRICES, dear, None]) if choices.budget_rate else PRICES


def change(rng: Random) -> tuple[BudgetKey, Budget | None]:
    """A budget to set; None: it is removed."""
    key = rng.choice(KEYS)
    if rng.random() < 0.15:
        return key, None
    soft, hard = sorted(rng.choices(AMOUNTS, k=2))
    limits = rng.choice([{"soft": soft}, {"hard": hard}, {"soft": soft, "hard": hard}])
    return key, Budget(key=key, currency=CURRENCY, period=rng.choice(list(BudgetPeriod)), **limits)


class BudgetChecks(Checks):
    def __init__(
        self, *, jobs: Mapping[JobId, Job], containers: ContainerRecords, times: StoredTimes, run_log: RunLog
    ) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._containers = containers
        self._times = times
        #: As last committed.
        self.budgets: dict[BudgetKey, Budget] = {}
        #: By job: the reason of the first hard limit that found it unfinished, and the job at that time.
        self._terminated: dict[JobId, tuple[str, Job]] = {}
        self._records = 0

    def written(self, changes: Changes, begun: Sequence[Job]) -> None:
        """Called before `jobs` has the changes. `begun`: the jobs of which an attempt begins."""
        crossed, exhausted = 0, list(self.budgets.values())
        for key, after in changes.budgets:
            before = self.budgets.pop(key, None)
            if after is not None:
                self.budgets[key] = after
                crossed += self._check_crossings(before, after, changes)
        records = [record for record in changes.audit_records if _is_crossing(record.operation, record.resource)]
        if len(records) != crossed:
            self.run_log.fail("BU1 each crossing has one audit record", f"{records} of {crossed} crossings")
        self._records += crossed
        now = max((entry.at for entry in changes.history), default=None)
        if now is not None:
            self._check_starts(begun, now)
            self._check_submissions(changes, [budget for budget in exhausted if budget in self.budgets.values()], now)

    def _check_crossings(self, before: Budget | None, after: Budget, changes: Changes) -> bool:
        """Whether limits were crossed. Each is crossed once in a period, when the spending has reached it."""
        known = () if before is None else before.crossings
        new = [crossing for crossing in after.crossings if crossing not in known]
        kept = [crossing for crossing in known if crossing in after.crossings]
        if len({(crossing.limit, crossing.period) for crossing in after.crossings}) < len(after.crossings):
            self.run_log.fail("BU1 each crossing is recorded once", f"{after}")
        if not new:  # A limit may be changed, and changed back, in one unit of work.
            return False
        if any(crossing not in kept and _still_holds(crossing, before, after) for crossing in known):
            self.run_log.fail("BU1 a crossing holds until its limit is changed", f"{before} {after}")
        limits = tuple(crossing.limit for crossing in new)
        reason, at = stop_reason(after, limits), new[0].at
        orders = [stop for stop, _ in changes.bulk_stops if stop.request.reason == reason]
        records = [order.record for order in orders]
        if [order.request.kind for order in orders] != [stop_kind(limits)] or records[0] not in changes.audit_records:
            self.run_log.fail("BU2 a crossing is saved with the order that it causes", f"{after} {orders}")
        self._check_spent(after, at)
        for crossing in new:
            self.run_log.counts[f"budgets: {crossing.limit}"] += 1
            if crossing.spent < after.amount(crossing.limit):
                self.run_log.fail("BU1 a limit is crossed when it is reached", f"{after}")
        self.run_log.write(f"budget of {after.key}: {limits[-1]}")
        if BudgetLimit.HARD in limits:
            for job in self._unfinished(after.key):
                self._terminated.setdefault(job.id, (reason, job))
        return True

    def _check_spent(self, budget: Budget, at: datetime) -> None:
        """The spending at a crossing is what ended attempts cost, and no more than active ones have really cost."""
        spent, jobs = budget.crossings[-1].spent, [job for job in self.jobs.values() if _covers(budget.key, job)]
        ended = sum((self._cost(replace(job, attempt=None), at) for job in jobs), Decimal(0))
        most = ended + sum((self._most(job, at) for job in jobs if job.attempt is not None), Decimal(0))
        if not ended - ROUNDING <= spent <= most + ROUNDING:
            self.run_log.fail("BU3 a crossing has the true spending", f"{budget}, and it is {ended} to {most}")

    def ended(self, before: Job, after: Job) -> None:
        """Called for each changed job: an attempt costs no time in which its container did not run."""
        for attempt in after.attempts[len(before.attempts) :]:
            self.run_log.counts["attempts charged until a survey"] += attempt.charged_until is not None
            several = len(attempt.containers) > 1
            if after.spec.prices is None or several or self._times.spans_setting(after.id, attempt.number):
                continue
            ran = self._ran(after, attempt.number)
            if run_time(attempt, self._times.now()) > ran:
                self.fail("BU6 an attempt costs what its container ran", after, f"{attempt} and not {ran}")

    def charges_now(self) -> bool:
        """Whether an attempt under way is charged to a budget."""
        priced = [job for job in self.jobs.values() if job.attempt is not None and job.spec.prices is not None]
        return any(_covers(key, job) for key in self.budgets for job in priced)

    def _most(self, job: Job, at: datetime) -> Decimal:
        """The most that the active attempt of a job can have cost: its containers have run so long.

        An attempt with a container that has still to start goes on after the end of the others.
        """
        assert job.attempt is not None
        if job.spec.prices is None:
            return Decimal(0)
        goes_on = any(container.state in YET_TO_COME for container in job.attempt.containers)
        if goes_on or self._times.spans_setting(job.id, job.attempt.number):
            return self._cost(replace(job, attempts=()), at)
        rate = hourly(job.spec.prices, job.spec.resources).total
        return rate * Decimal(self._ran(job, job.attempt.number) / timedelta(hours=1))

    def _ran(self, job: Job, number: int) -> timedelta:
        """From the start of the first container of an attempt to the end of the last, or until now."""
        ran = [record for record in self._containers.of_job(job.id) if record.ran and record.tag.attempt == number]
        now = self._times.now()
        ends = [now if record.died_at is None else min(record.died_at, now) for record in ran]
        return max(ends) - min(run.container.started_at for run in ran) if ran else timedelta()

    def _cost(self, job: Job, at: datetime) -> Decimal:
        cost = cost_of(job, at)
        return Decimal(0) if cost is None else cost.total

    def _check_starts(self, begun: Iterable[Job], now: datetime) -> None:
        for job in begun:
            for budget in self._exhausted(job, now):
                self.fail("BU4 nothing starts beyond a budget", job.id, budget)

    def _check_submissions(self, changes: Changes, budgets: Iterable[Budget], now: datetime) -> None:
        """`budgets`: those that this commit does not change. A crossing may follow a submission in one unit of work."""
        exhausted = [budget for budget in budgets if present_crossings(budget, now)]
        for job in (job for job in changes.inserted if job.child is None):
            for budget in (container for container in exhausted if _covers(container.key, job)):
                self.run_log.fail("BU4 nothing is accepted beyond a budget", f"{job.spec.name} {budget}")

    def _exhausted(self, job: Job, now: datetime) -> list[Budget]:
        return [
            budget for budget in self.budgets.values() if _covers(budget.key, job) and present_crossings(budget, now)
        ]

    def _unfinished(self, key: BudgetKey) -> list[Job]:
        return [job for job in self.jobs.values() if _covers(key, job) and job.status not in FINISHED]

    def _owed(self, budget: Budget, now: datetime) -> Decimal:
        return sum((self._cost(job, now) for job in self.jobs.values() if _covers(budget.key, job)), Decimal(0))

    def check_memory(self, loop: EngineLoop) -> None:
        """The budgets in memory are the stored ones."""
        if loop.budgets._budgets != self.budgets:
            self.run_log.fail("I1 memory is what is stored", f"{loop.budgets._budgets}, and it is {self.budgets}")

    async def check_end(self, world) -> None:
        """Every limit that is reached is recorded, and what was terminated by one has ended by it."""
        server, now = world.server, world.server.clock.now()
        if {budget.key: budget for budget in await server.store.budgets()} != self.budgets:
            self.run_log.fail("BU1 crossings are durable", f"{await server.store.budgets()}")
        for status in server.engine.budget_statuses():
            if reached(status.budget, status.spent, now):
                self.run_log.fail("BU1 a limit that is reached is crossed", f"{status}")
            if abs(status.spent - self._owed(status.budget, now)) > ROUNDING:
                self.run_log.fail(
                    "BU3 the spending is what jobs cost", f"{status} and not {self._owed(status.budget, now)}"
                )
        await self._check_records(server.store)
        for job_id, (reason, before) in self._terminated.items():
            self._check_terminated(self.jobs[job_id], before, reason)

    async def _check_records(self, store) -> None:
        stored = [
            record.record
            for operation in OPERATIONS.values()
            for record in await store.audit_records(AuditQuery(operation=operation, limit=1000))
        ]
        found = [record for record in stored if _is_crossing(record.operation, record.resource)]
        if len(found) != self._records or any(record.user != UserName("") for record in found):
            self.run_log.fail("BU1 each crossing has one audit record", f"{found} of {self._records}")

    def _check_terminated(self, job: Job, before: Job, reason: str) -> None:
        """A job that a hard limit found unfinished shows its reason, unless it ended by another order or by itself."""
        shown = {order.reason for order in job.stop_orders}
        if reason in shown or job.child is not None:
            self.run_log.counts["budgets: jobs terminated"] += reason in shown
            return
        ordered = any(order.kind is not StopKind.PAUSE for order in job.stop_orders)
        if not ordered and len(job.attempts) > len(before.attempts) + (before.attempt is not None):
            self.fail("BU5 a hard limit ends all jobs", job.id, f"{reason}: {job}")


def _covers(key: BudgetKey, job: Job) -> bool:
    if key.scope is BudgetScope.QUEUE:
        return job.spec.queue == key.name
    return key.name in (ROOT, job.spec.owner.account)


def _still_holds(crossing: Crossing, before: Budget, after: Budget) -> bool:
    unchanged = (before.period, before.amount(crossing.limit)) == (after.period, after.amount(crossing.limit))
    return unchanged and before.currency == after.currency


def _is_crossing(operation: str, resource: str) -> bool:
    return operation in OPERATIONS.values() and resource.startswith("budget/")
