"""GetJobCost, GetJobMetrics and ReportCosts: what jobs cost and report. See docs/cost.md."""

from datetime import datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.operation_table import JOB, Call, OperationTable
from batchq.domain.access.accounts import Caller
from batchq.domain.cost import Cost, rounded
from batchq.domain.ids import JobId, node_of
from batchq.domain.times import EPOCH, optional_milliseconds
from batchq.domain.training_metrics import MetricValue
from batchq.errors import NotFound
from batchq.ports.costs import CostGroup
from batchq.services.costs import CostReport, CostRow, CostService
from batchq.services.jobs import JobService

LATEST = 253_402_214_400_000  # milliseconds: the last day of the year 9999

Moment = Annotated[int, Field(ge=0, le=LATEST)]


class CostAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
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


class JobCostAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cost of one job."""

    job_id: str
    #: Null for a job that was submitted when the server had no prices.
    cost: CostAnswer | None


class MetricAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last value of a metric."""

    value: float
    #: When it was written, in milliseconds since 1970; absent if it is not known.
    at: int | None = None


class JobMetricsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The metrics of the newest attempt of a job."""

    job_id: str
    #: By name; empty if the job has reported none.
    metrics: dict[str, MetricAnswer]


class CostReportRequest(BaseModel):
    """The time and the groups of a report."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    by: Annotated[CostGroup, Field(strict=False)] = CostGroup.ACCOUNT
    #: In milliseconds since 1970, rounded down to the day in UTC. None: the beginning of the month.
    since: Moment | None = None
    #: In milliseconds since 1970, rounded up to the end of the day in UTC. None: now.
    until: Moment | None = None


class CostRowAnswer(Struct, frozen=True, kw_only=True):
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


class CostReportAnswer(Struct, frozen=True, kw_only=True):
    """What the jobs that the caller may see cost. Stored checkpoints are not counted."""

    by: CostGroup
    #: Milliseconds since 1970: the beginning of the first day.
    since: int
    #: Milliseconds since 1970: the end of the last day.
    until: int
    #: The most expensive first, at most 1000.
    rows: tuple[CostRowAnswer, ...]
    #: Whether there are more rows, or more spending than one report reads.
    more: bool


class CostContext(Struct, frozen=True, kw_only=True):
    costs: CostService
    jobs: JobService


operations = OperationTable[CostContext](not_found=HTTPStatus.NOT_FOUND)


@operations.add("GetJobCost", "GET", f"{JOB}/cost")
async def get_job_cost(context: CostContext, call: Call[None]) -> JobCostAnswer:
    """Returns what a job has cost so far.

    A job costs what it holds while its containers run. The cost of an array is that of its children.
    """
    cost = await context.costs.of_job(call.job_id, caller=call.caller)
    return JobCostAnswer(job_id=call.job_id, cost=None if cost is None else _cost(cost))


@operations.add("GetJobMetrics", "GET", f"{JOB}/metrics")
async def get_job_metrics(context: CostContext, call: Call[None]) -> JobMetricsAnswer:
    """Returns the last values of the metrics of a job.

    Tags of SubmitJob with the key `batchq:metric:NAME` name the regular expressions, in RE2 syntax.
    """
    found = await _metrics(context, call.job_id, call.caller)
    metrics = {name: MetricAnswer(value=it.value, at=optional_milliseconds(it.at)) for name, it in found.items()}
    return JobMetricsAnswer(job_id=call.job_id, metrics=metrics)


@operations.add("ReportCosts", "POST", "/v1/batchq/costreport")
async def report_costs(context: CostContext, call: Call[CostReportRequest]) -> CostReportAnswer:
    """Adds up what jobs cost by account, user, queue or job definition.

    Only jobs that the caller may see are counted.
    """
    body = call.input
    found = await context.costs.report(body.by, since=_time(body.since), until=_time(body.until), caller=call.caller)
    return _report(body.by, found)


async def _metrics(context: CostContext, job_id: JobId, caller: Caller) -> dict[str, MetricValue]:
    for job, _ in await context.jobs.describe([node_of(job_id)[0]], caller=caller):
        return dict(await context.costs.metrics.current(job, caller=caller))
    raise NotFound(f"Job {job_id} not found.")


def amount(value: Decimal) -> float:
    """An amount with two decimals."""
    return float(rounded(value))


def _cost(cost: Cost) -> CostAnswer:
    return CostAnswer(
        currency=cost.currency,
        total=amount(cost.total),
        gpu=amount(cost.gpu),
        compute=amount(cost.compute),
        storage=amount(cost.storage),
        estimated_savings=None if cost.estimated_savings is None else amount(cost.estimated_savings),
    )


def _report(by: CostGroup, report: CostReport) -> CostReportAnswer:
    return CostReportAnswer(
        by=by,
        since=report.first.toordinal() * _DAY_MILLISECONDS - _EPOCH_MILLISECONDS,
        until=(report.last.toordinal() + 1) * _DAY_MILLISECONDS - _EPOCH_MILLISECONDS,
        rows=tuple(map(_row, report.rows)),
        more=report.more,
    )


def _row(it: CostRow) -> CostRowAnswer:
    return CostRowAnswer(
        name=it.name,
        currency=it.currency,
        total=amount(it.amounts.total),
        gpu=amount(it.amounts.gpu),
        compute=amount(it.amounts.compute),
        active=amount(it.active),
    )


def _time(given: int | None) -> datetime | None:
    return None if given is None else EPOCH + timedelta(milliseconds=given)


_DAY_MILLISECONDS = 86_400_000
_EPOCH_MILLISECONDS = EPOCH.toordinal() * _DAY_MILLISECONDS
