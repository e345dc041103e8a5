"""Costs and metrics of jobs, cost reports and budgets."""

from msgspec import Struct

from batchq.domain.enums import BudgetLimit, BudgetPeriod, CostGroup


class CostResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job has cost so far, with two decimals. `total` is rounded after the parts were added."""

    #: ISO 4217.
    currency: str
    total: float
    gpu: float
    #: vCPUs and memory.
    compute: float
    #: Stored checkpoints, which cost until they are deleted.
    storage: float
    #: How much more the job would have cost if it had done all its work; null: not known.
    estimated_savings: float | None


class JobCostResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cost of one job."""

    job_id: str
    #: Null for a job that was submitted when the server had no prices.
    cost: CostResponse | None


class MetricResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last value of a metric."""

    value: float
    #: When it was written, in milliseconds since 1970; absent if it is not known.
    at: int | None = None


class JobMetricsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The metrics of the newest attempt of a job."""

    job_id: str
    #: By name; empty if the job has reported none.
    metrics: dict[str, MetricResponse]


class CostRowResponse(Struct, frozen=True, kw_only=True):
    """What the jobs of one group cost, with two decimals."""

    #: The account, user, queue or job definition.
    name: str
    #: ISO 4217.
    currency: str
    total: float
    gpu: float
    #: vCPUs and memory.
    compute: float
    #: The part of `total` of attempts under way.
    active: float


class CostReportResponse(Struct, frozen=True, kw_only=True):
    """What the jobs that the caller may see cost. Stored checkpoints are not counted."""

    by: CostGroup
    #: Milliseconds since 1970: the beginning of the first day.
    since: int
    #: Milliseconds since 1970: the end of the last day.
    until: int
    #: The most expensive first, at most 1000.
    rows: tuple[CostRowResponse, ...]
    #: Whether there are more rows, or more spending than one report reads.
    more: bool


class CrossingResponse(Struct, frozen=True, kw_only=True):
    """A limit that was reached."""

    limit: BudgetLimit
    #: Milliseconds since 1970.
    at: int
    #: What was spent then.
    spent: float


class BudgetResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A budget. Amounts have two decimals."""

    #: Absent in the budget of a queue.
    account: str | None = None
    #: Absent in the budget of an account.
    job_queue: str | None = None
    #: ISO 4217.
    currency: str
    #: Absent without a soft limit.
    soft: float | None = None
    #: Absent without a hard limit.
    hard: float | None = None
    period: BudgetPeriod
    #: In the present period, by ended and running jobs.
    spent: float
    #: The user who set it last.
    set_by: str
    #: The limits that were reached in the present period, oldest first.
    crossings: tuple[CrossingResponse, ...]


class ListBudgetsResponse(Struct, frozen=True, kw_only=True):
    """The budgets that the caller may see."""

    #: Those of accounts first, each by name.
    budgets: tuple[BudgetResponse, ...]
