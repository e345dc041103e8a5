"""What jobs cost: one job, or all jobs of some days by account, user, queue or job definition; and the budgets.

The engine enforces the budgets.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Caller, Directory, UserName
from batchq.domain.access.permissions import may_see_account
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope, check_limits, covered_by, month_of
from batchq.domain.cost import ZERO, Amounts, Cost, byte_hours, cost_between, cost_of
from batchq.domain.enums import ACTIVE, BudgetPeriod, CostGroup
from batchq.domain.ids import JobId, QueueName, node_of
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.prices import Prices
from batchq.domain.times import MICROSECOND
from batchq.domain.training import TrainingPlan
from batchq.engine.budgets import BudgetStatus
from batchq.engine.engine import Engine
from batchq.errors import Invalid, NotFound
from batchq.ports.checkpoints import CheckpointStore
from batchq.ports.clock import Clock
from batchq.ports.costs import SpendingQuery
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import JobStore
from batchq.services.training import MetricsService
from batchq.system.throttling import ConcurrencyLimit

NO_PLAN = TrainingPlan()
MAX_ROWS = 1000  # groups of a report
MAX_WAITING = 15  # reports of one user that wait while another one of the same user is being made
MAX_PAGES = 25  # reads of the store for one report; other searches come between them
CHILDREN_PAGE = 1000

_DAY = timedelta(days=1)


class CostRow(Struct, frozen=True, kw_only=True):
    """What the jobs of one group cost in the time of a report."""

    #: The name of the account, user, queue or job definition.
    name: str
    currency: str
    #: Of ended and of active attempts, not rounded.
    amounts: Amounts
    #: The part of active attempts.
    active: Decimal


class CostReport(Struct, frozen=True, kw_only=True):
    """What jobs cost on some days. Stored checkpoints are not counted."""

    #: The first and the last day, in UTC.
    first: date
    last: date
    #: The most expensive first.
    rows: tuple[CostRow, ...]
    #: Whether there are more rows, or more spending than one report reads.
    more: bool


class DayCost(Struct, frozen=True, kw_only=True):
    """What the jobs of one group cost on one day, not rounded."""

    day: date
    #: As in a `CostRow`.
    name: str
    currency: str
    total: Decimal


class CostService:
    """Computes costs. Jobs that are not visible to the caller are treated as missing."""

    def __init__(
        self, *, engine: Engine, store: JobStore, metrics: MetricsService, checkpoints: CheckpointStore, clock: Clock
    ) -> None:
        self._engine = engine
        self._store = store
        #: Reads the metrics of jobs.
        self.metrics = metrics
        self._checkpoints = checkpoints
        self._clock = clock
        self._one_at_a_time = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)

    async def of_job(self, job_id: JobId, *, caller: Caller) -> Cost | None:
        """What a job has cost so far; None for a job without prices, never 0.

        The cost of an array is that of its children, and the cost of a node that of its whole job. Raises NotFound,
        Throttled and StoreFailed.
        """
        whole, _ = node_of(job_id)
        job = (await self._store.jobs([whole], visibility=caller.visibility)).get(whole)
        if job is None:
            raise NotFound(f"Job {job_id} not found.")
        if job.spec.prices is None:
            return None
        if is_parent(job):
            return await self._of_children(job, job.spec.prices.currency)
        metrics = {} if job.spec.plan == NO_PLAN else await self.metrics.current(job, caller=caller)
        stored, until = await self._stored(job), self._engine.charged_until(job, self._clock.now())
        return cost_of(job, until, stored=stored, metrics=metrics)

    async def report(
        self, by: CostGroup, *, since: datetime | None, until: datetime | None, caller: Caller
    ) -> CostReport:
        """What the jobs that are visible to the caller cost on the days (UTC) from `since` until `until`.

        `since` None: from the beginning of the month on. `until` None: until now. Raises Invalid; Throttled;
        StoreFailed.
        """
        now = self._clock.now()
        first = (month_of(now) if since is None else since.astimezone(UTC)).date()
        last = ((now if until is None else until.astimezone(UTC)) - MICROSECOND).date()
        if last < first:
            raise Invalid("The end of the time must be after its beginning.")
        async with self._one_at_a_time.of(caller.user):
            amounts, more = await self._spending(by, first, last, caller)
        active: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        visible = (job for job in self._engine.active_jobs() if caller.reaches(job.spec.owner))
        for key, cost in self._active_costs(visible, by, first, last, now):
            amounts[key] += cost
            active[key] += cost.total
        rows = [
            CostRow(name=key[0], currency=key[1], amounts=amount, active=active.get(key, ZERO))
            for key, amount in amounts.items()
        ]
        rows.sort(key=lambda row: (-row.amounts.total, row.name, row.currency))
        more = more or len(rows) > MAX_ROWS
        return CostReport(first=first, last=last, rows=tuple(rows[:MAX_ROWS]), more=more)

    async def by_day(self, by: CostGroup, *, days: int, caller: Caller) -> tuple[DayCost, ...]:
        """What the jobs that are visible to the caller cost on each of the last days (UTC), the first day first.

        A group without a cost on a day is left out. Raises Throttled; StoreFailed.
        """
        now = self._clock.now()
        visible = [job for job in self._engine.active_jobs() if caller.reaches(job.spec.owner)]
        found: list[DayCost] = []
        async with self._one_at_a_time.of(caller.user):
            for day in (now.date() - number * _DAY for number in reversed(range(days))):
                amounts, _ = await self._spending(by, day, day, caller)
                begun = (job for job in visible if _began_by(job, day))
                for key, cost in self._active_costs(begun, by, day, day, now):
                    amounts[key] += cost
                found += (
                    DayCost(day=day, name=name, currency=currency, total=amount.total)
                    for (name, currency), amount in amounts.items()
                    if amount.total
                )
        return tuple(found)

    async def _spending(
        self, by: CostGroup, first: date, last: date, caller: Caller
    ) -> tuple[defaultdict[tuple[str, str], Amounts], bool]:
        """What ended attempts cost by name and currency, and whether some of it was not read."""
        amounts: defaultdict[tuple[str, str], Amounts] = defaultdict(Amounts)
        is_cut = False
        for _ in range(MAX_PAGES):
            query = SpendingQuery(by=by, first=first, last=last, visibility=caller.visibility)
            page = await self._store.spending(query)
            for spending in page.groups:
                amounts[spending.name, spending.currency] += spending.amounts
            is_cut = is_cut or page.is_cut
            if page.following is None:
                return amounts, is_cut
            first = page.following
        return amounts, True

    async def _of_children(self, array: Job, currency: str) -> Cost:
        now, total, storage = self._clock.now(), Amounts(), ZERO
        query = PageQuery(selection=JobSelection(parent=array.id), limit=CHILDREN_PAGE)
        while True:
            page = await self._store.list(query)
            for child in page.jobs:
                until = self._engine.charged_until(child, now)
                cost = cost_of(child, until, stored=await self._stored(child))
                if cost is not None:
                    total += Amounts(gpu=cost.gpu, compute=cost.compute)
                    storage += cost.storage
            if page.next is None:
                return Cost(currency=currency, gpu=total.gpu, compute=total.compute, storage=storage)
            query = replace(query, before=page.next)

    async def _stored(self, job: Job) -> int:
        """The byte-hours of the job's checkpoints that exist."""
        if job.spec.checkpoints is None:
            return 0
        now, ended = self._clock.now(), job.status not in ACTIVE
        return sum(
            byte_hours(checkpoint.size_bytes, checkpoint.created_at, now)
            for checkpoint in await self._checkpoints.entries(job.id, ended=ended)
        )

    def _active_costs(
        self, jobs: Iterable[Job], by: CostGroup, first: date, last: date, now: datetime
    ) -> Iterable[tuple[tuple[str, str], Amounts]]:
        """The group and the cost of each attempt under way, in the days from `first` to `last`."""
        since = datetime.combine(first, time(), tzinfo=UTC)
        until = now if last >= now.date() else datetime.combine(last + _DAY, time(), tzinfo=UTC)
        for job in jobs:
            if job.attempt is not None and job.spec.prices is not None:
                cost = cost_between(job, job.attempt, since, min(until, self._engine.charged_until(job, now)))
                if cost.total:
                    yield (_group(job, by), job.spec.prices.currency), cost


def _began_by(job: Job, day: date) -> bool:
    """Whether the attempt under way began on this day or earlier."""
    return job.attempt is not None and job.attempt.started_at is not None and job.attempt.started_at.date() <= day


def _group(job: Job, by: CostGroup) -> str:
    match by:
        case CostGroup.ACCOUNT:
            return job.spec.owner.account
        case CostGroup.USER:
            return job.spec.owner.user
        case CostGroup.QUEUE:
            return job.spec.queue
        case CostGroup.DEFINITION:
            return job.spec.definition.name


class BudgetService:
    """Requests about budgets. `api` checks that only operators and admins set and remove them."""

    def __init__(
        self,
        *,
        engine: Engine,
        directory: Callable[[], Directory],
        queues: Callable[[Caller], Collection[QueueName]],
        prices: Prices | None,
    ) -> None:
        self._engine = engine
        self._directory = directory
        self._queues = queues
        #: Of new jobs; None: costs are not known, and no budget can be set.
        self._prices = prices

    def list(self, *, caller: Caller) -> tuple[BudgetStatus, ...]:
        """The budgets by scope and name: all for operators and admins, those of their accounts for coordinators."""
        return tuple(status for status in self._engine.budget_statuses() if _is_visible(status.budget.key, caller))

    @property
    def currency(self) -> str | None:
        """Of the costs of new jobs; None: the server has no prices."""
        return None if self._prices is None else self._prices.currency

    def accounts_of(self, key: BudgetKey) -> frozenset[AccountName] | None:
        """The accounts whose jobs a budget counts; None: all, or the jobs of a queue."""
        return covered_by(key, self._directory().below(AccountName(key.name)))

    async def set(
        self, key: BudgetKey, *, soft: Decimal | None, hard: Decimal | None, period: BudgetPeriod, caller: Caller
    ) -> BudgetStatus:
        """Set the budget of an account or a queue, in the currency of the server's prices.

        Limits that are reached already apply at once. Raises NotFound for an unknown account or queue; Invalid;
        StoreFailed.
        """
        if self._prices is None:
            raise Invalid("The server has no prices: start it with --prices.")
        check_limits(soft, hard)
        self._require_existing(key, caller)
        budget = Budget(
            key=key, currency=self._prices.currency, soft=soft, hard=hard, period=period, set_by=caller.user
        )
        await self._engine.set_budget(key, budget, caller=caller)
        found = (status for status in self._engine.budget_statuses() if status.budget.key == key)
        return next(found, BudgetStatus(budget=budget, spent=Decimal(0)))

    async def remove(self, key: BudgetKey, *, caller: Caller) -> None:
        """Remove a budget; jobs that waited for it start. Raises NotFound; StoreFailed."""
        await self._engine.set_budget(key, None, caller=caller)

    def _require_existing(self, key: BudgetKey, caller: Caller) -> None:
        if key.scope is BudgetScope.ACCOUNT and self._directory().account(AccountName(key.name)) is None:
            raise NotFound(f"Account {key.name} not found.")
        if key.scope is BudgetScope.QUEUE and key.name not in self._queues(caller):
            raise NotFound(f"JobQueue {key.name} not found.")


def _is_visible(key: BudgetKey, caller: Caller) -> bool:
    if key.scope is BudgetScope.QUEUE:
        return caller.reaches_all
    return may_see_account(caller, AccountName(key.name))
