"""Budgets and spending in memory, as last saved: which limits are reached, and which jobs may not start.

The commit that stores the end of an attempt also stores its cost; the sums are held here. What active jobs have cost so
far is added whenever it is needed. A limit is applied to what they are known to have cost: surveys saw them run. So a
server that was down, or whose engine was away, charges no time in which no container ran. Decisions 0047, 0064.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, AccountName, UserName
from batchq.domain.access.audit import AuditRecord
from batchq.domain.budgets import (
    Budget,
    BudgetKey,
    BudgetScope,
    Crossing,
    ExhaustedBudget,
    budget_refusal,
    changed_budget,
    covered_by,
    crossed,
    exhausted_budgets,
    jobs_of_budget,
    month_of,
    period_start,
    present_crossings,
    reached,
    stop_kind,
    stop_reason,
)
from batchq.domain.cost import ZERO, Spending, charged_until_seen, hourly, spending_of
from batchq.domain.enums import BudgetLimit
from batchq.domain.ids import JobId
from batchq.domain.job import Attempt, Job, JobSpec
from batchq.domain.stop_request import StopRequest
from batchq.domain.times import MICROSECOND
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.bulk_stops import CandidateReader, discard_outcomes
from batchq.engine.mailbox import BudgetReached, BulkStopRequest, CatalogChanged, SetBudget
from batchq.engine.sightings import Sightings
from batchq.engine.state import EngineState
from batchq.engine.supervisor import wait_at_most
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import Invalid, NotFound, StoreFailed
from batchq.ports.clock import Clock
from batchq.ports.costs import CostStore, SpendingKey

log = logging.getLogger(__name__)

MAX_BUDGETS = 1000
CHECK_INTERVAL = 10.0  # seconds between checks of the budgets
SURVEY_TIME = 0.5  # seconds from the request of a survey to the next check
OPERATIONS = {BudgetLimit.SOFT: "BudgetSoftLimit", BudgetLimit.HARD: "BudgetHardLimit"}  # in audit records
Sums = defaultdict[SpendingKey, Decimal]
StagedBudgets = dict[BudgetKey, Budget | None]
NOTHING_STAGED: StagedBudgets = {}
_MICROSECONDS_PER_HOUR = timedelta(hours=1) // MICROSECOND


class BudgetStatus(Struct, frozen=True, kw_only=True):
    """A budget and what is spent of it."""

    budget: Budget
    #: In the present period, by ended and by active attempts; not rounded.
    spent: Decimal
    #: The crossings of the present period, oldest first.
    crossings: tuple[Crossing, ...] = ()


class Budgets:
    """The budgets and the sums of spending, as last saved."""

    def __init__(self, store: CostStore, accounts: AccountPolicies, sightings: Sightings) -> None:
        self._store = store
        self._accounts = accounts
        self._sightings = sightings
        self._budgets: dict[BudgetKey, Budget] = {}
        #: What ended attempts cost in all.
        self._whole = Sums(Decimal)
        #: What ended attempts cost in the month that begins at `_month`.
        self._of_month = Sums(Decimal)
        self._month: datetime | None = None
        #: What each active job costs in an hour: computing it takes longer than all else.
        self._rates: dict[JobId, tuple[SpendingKey, Decimal]] = {}

    async def load(self, now: datetime) -> None:
        """Load the stored state: at the start, and whenever memory may differ from the store."""
        self._budgets = {budget.key: budget for budget in await self._store.budgets()}
        self._whole = Sums(Decimal, await self._store.spending_totals(None))
        self._month = month_of(now)
        self._of_month = Sums(Decimal, await self._store.spending_totals(self._month.date()))

    def stage(self, unit: UnitOfWork) -> None:
        """Add what the attempts cost that ended in this unit of work."""
        sums: dict[tuple[object, ...], Spending] = {}
        for before, after in unit.job_changes:
            if after.spec.prices is None or not after.attempts:
                continue
            known = 0 if before is None else len(before.attempts)
            ended = tuple(self._charged(before, after, attempt) for attempt in after.attempts[known:])
            if ended != after.attempts[known:]:
                unit.update(after, replace(after, attempts=(*after.attempts[:known], *ended)))
            for spending in spending_of(after, ended):
                group = (spending.day, spending.owner, spending.queue, spending.definition, spending.currency)
                sums[group] = spending if group not in sums else spending.plus(sums[group].amounts)
        if sums:
            unit.budgets.charge(sums.values())

    def _charged(self, before: Job | None, after: Job, ended: Attempt) -> Attempt:
        """The attempt, charged until it was last seen to run if the container engine did not report its end."""
        is_under_way = before is not None and before.attempt is not None and before.attempt.number == ended.number
        seen_at = self._sightings.known_until(before) if before is not None and is_under_way else None
        return charged_until_seen(after, ended, seen_at)

    def on_committed(self, committed: Committed) -> None:
        unit = committed.unit
        if unit.budgets.spending:
            self._begin_month(unit.now)
        for spending in unit.budgets.spending:
            key = SpendingKey(spending.owner.account, spending.queue, spending.currency)
            self._whole[key] += spending.amounts.total
            if self._month is not None and spending.day >= self._month.date():
                self._of_month[key] += spending.amounts.total
        for name, budget in unit.budgets.budgets.items():
            if budget is None:
                self._budgets.pop(name, None)
            else:
                self._budgets[name] = budget

    def admit(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Raises Invalid for a new job of an account or queue whose budget is used up."""
        for budget in self.exhausted(unit.now, unit.budgets.budgets) if self._budgets else ():
            if budget.covers(spec.owner.account, spec.queue):
                raise Invalid(budget_refusal(budget))

    def exhausted(self, now: datetime, staged: StagedBudgets = NOTHING_STAGED) -> tuple[ExhaustedBudget, ...]:
        """The budgets that let no job start, as last saved and with the changes of a unit of work."""
        if not self._budgets and not staged:
            return ()
        below = self._accounts.quotas().directory.below
        present = (budget for budget in (self._budgets | staged).values() if budget is not None)
        return exhausted_budgets(((budget, below(AccountName(budget.key.name))) for budget in present), now)

    def statuses(self, active: Iterable[Job], now: datetime) -> tuple[BudgetStatus, ...]:
        """All budgets, by key, each with what is spent of it. `active`: the jobs with an attempt under way.

        An attempt that runs as far as the container engine has reported costs until `now`.
        """
        sums = self._with_active(active, now, lambda job: self._sightings.expected_until(job, now))
        return tuple(
            BudgetStatus(budget=budget, spent=self._spent(budget, sums, now), crossings=present_crossings(budget, now))
            for _, budget in sorted(self._budgets.items())
        )

    def due(self, active: Collection[Job], now: datetime) -> tuple[tuple[BudgetKey, ...], bool]:
        """The budgets with a limit that is reached and whose crossing is not stored.

        Also whether another limit may be reached by now, which only the next survey shows.
        """
        expected = [status.budget for status in self.statuses(active, now) if reached(status.budget, status.spent, now)]
        if not expected:
            return (), False
        sums = self._with_active(active, now, self._sightings.known_until)
        known = tuple(budget.key for budget in expected if reached(budget, self._spent(budget, sums, now), now))
        return known, len(known) < len(expected)

    def covered(self, key: BudgetKey) -> frozenset[AccountName] | None:
        """The accounts that a budget covers; None: all."""
        return covered_by(key, self._accounts.quotas().directory.below(AccountName(key.name)))

    def set(self, unit: UnitOfWork, message: SetBudget) -> None:
        """Store or remove a budget. Raises NotFound when the budget to remove does not exist; Invalid."""
        staged = unit.budgets.budgets
        before = staged[message.key] if message.key in staged else self._budgets.get(message.key)
        if message.budget is None and before is None:
            raise NotFound(f"There is no budget of {message.key}.")
        if before is None and len(self._budgets.keys() | staged.keys()) >= MAX_BUDGETS:
            raise Invalid(f"There can be at most {MAX_BUDGETS} budgets.")
        after = None if message.budget is None else changed_budget(before, message.budget)
        unit.budgets.put(message.key, after)
        unit.audit.record(f"budget/{message.key.scope.lower()}/{message.key.name}")

    def cross(self, unit: UnitOfWork, message: BudgetReached, active: Mapping[JobId, Job]) -> BulkStopRequest | None:
        """Store the crossing of a budget's limits. Returns the order that follows; None if it is stored already."""
        budget = self._budgets.get(message.key)
        if budget is None or message.key in unit.budgets.budgets:
            return None
        sums = self._with_active(active.values(), unit.now, self._sightings.known_until)
        spent = self._spent(budget, sums, unit.now)
        limits = reached(budget, spent, unit.now)
        if not limits:
            return None
        unit.budgets.put(budget.key, crossed(budget, limits, spent, unit.now))
        record = _record(budget.key, limits, unit.now)
        unit.audit.add(record)
        return BulkStopRequest(
            request=StopRequest(kind=stop_kind(limits), reason=stop_reason(budget, limits)),
            record=record,
            selection=message.selection,
            as_of=0,
            report=discard_outcomes,  # they are in the audit log
            candidates=message.candidates,
            caller=None,
            answer=None,
        )

    def _begin_month(self, now: datetime) -> None:
        """Begin a new month if one has begun. A clock that was set back does not bring the earlier one back."""
        month = month_of(now)
        if self._month is None or month > self._month:
            self._month, self._of_month = month, Sums(Decimal)

    def _with_active(
        self, active: Iterable[Job], now: datetime, until: Callable[[Job], datetime | None]
    ) -> tuple[Sums, Sums]:
        """The spending in all and in the present month, that of active attempts included.

        `until`: until when the attempt of a job counts.
        """
        self._begin_month(now)
        jobs = [job for job in active if job.spec.prices is not None]
        self._rates = rates = {job.id: self._rates.get(job.id) or _rate(job) for job in jobs}
        held, before, month = Sums(Decimal), Sums(Decimal), self._month or now
        for job in jobs:
            start, end = None if job.attempt is None else job.attempt.started_at, until(job)
            if start is not None and end is not None:
                key, rate = rates[job.id]
                held[key] += rate * ((end - start) // MICROSECOND)
                if start < month:
                    before[key] += rate * ((min(end, month) - start) // MICROSECOND)
        whole, of_month = self._whole.copy(), self._of_month.copy()
        for key, amount in held.items():
            whole[key] += amount / _MICROSECONDS_PER_HOUR
            of_month[key] += (amount - before[key]) / _MICROSECONDS_PER_HOUR
        return whole, of_month

    def _spent(self, budget: Budget, sums: tuple[Sums, Sums], now: datetime) -> Decimal:
        """What is spent of the budget in its period, of the sums in all and in the present month."""
        amounts = sums[0] if period_start(budget, now) is None else sums[1]
        name, directory = budget.key.name, self._accounts.quotas().directory
        if budget.key.scope is BudgetScope.QUEUE:
            counted: Sequence[SpendingKey] = [key for key in amounts if key.queue == name]
        else:
            below = directory.below(AccountName(name))
            counted = [key for key in amounts if name == ROOT or key.account in below]
        return sum((amounts[key] for key in counted if key.currency == budget.currency), ZERO)


def _rate(job: Job) -> tuple[SpendingKey, Decimal]:
    """What budgets distinguish the job by, and what it costs in an hour."""
    assert job.spec.prices is not None, f"{job.id} has no prices"
    key = SpendingKey(job.spec.owner.account, job.spec.queue, job.spec.prices.currency)
    return key, hourly(job.spec.prices, job.spec.resources).total


def _record(key: BudgetKey, limits: Sequence[BudgetLimit], now: datetime) -> AuditRecord:
    """The audit record of a crossing. The account of a budget sees it; that of a queue's budget, operators do."""
    account = AccountName(key.name) if key.scope is BudgetScope.ACCOUNT else ROOT
    return AuditRecord(
        at=now,
        user=UserName(""),
        account=account,
        operation=OPERATIONS[limits[-1]],
        resource=f"budget/{key.scope.lower()}/{key.name}",
    )


class BudgetMonitor:
    """Checks the budgets at intervals, and after each change of a budget."""

    def __init__(
        self,
        budgets: Budgets,
        state: EngineState,
        candidate_reader: CandidateReader,
        *,
        clock: Clock,
        survey_now: Callable[[], None],
        post: Callable[[BudgetReached | CatalogChanged], None],
    ) -> None:
        self._budgets = budgets
        self._state = state
        self._candidate_reader = candidate_reader
        self._clock = clock
        self._survey_now = survey_now
        self._post = post
        self._changed = asyncio.Event()
        self._exhausted: tuple[ExhaustedBudget, ...] = ()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            must_survey = await self.check()
            if must_survey:
                self._survey_now()
            await wait_at_most(SURVEY_TIME if must_survey else CHECK_INTERVAL, self._changed, self._clock)

    def check_soon(self) -> None:
        """Check at once: a budget has changed."""
        self._changed.set()

    async def check(self) -> bool:
        """Order the stop of the jobs of each budget with a limit that is reached. Returns whether a survey is needed.

        Not before the first survey, and not in safe mode: it is not known which containers have run.
        """
        if self._state.safe_mode.active or self._state.sightings.surveyed_at is None:
            return False
        now = self._clock.now()
        exhausted = self._budgets.exhausted(now)
        if not set(self._exhausted) <= set(exhausted):  # a month has begun
            self._post(CatalogChanged())
        self._exhausted = exhausted
        due, must_survey = self._budgets.due(self._state.active.values(), now)
        for key in due:
            selection = jobs_of_budget(key, self._budgets.covered(key))
            try:
                candidates = await self._candidate_reader.candidates(selection)
            except StoreFailed as failure:
                log.warning("the limits of the budget of %s are not applied now: %s", key, failure)
                break
            log.warning("the spending of %s has reached a limit of its budget", key)
            self._post(BudgetReached(key=key, selection=selection, candidates=candidates))
        return must_survey
