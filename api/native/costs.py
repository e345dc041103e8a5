"""What jobs cost and report, and budgets: GetJobCost, GetJobMetrics, ReportCosts, ListBudgets, SetBudget, RemoveBudget.

See docs/cost.md.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from batchq.accounts.wire import EmptyRequest
from batchq.api.http.answers import amount, answer_of
from batchq.api.http.http import Milliseconds, RequestBody, Word
from batchq.api.operations.operation_table import OperationTable, missing_is_404
from batchq.api.operations.operations import JOB, Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.budgets import BudgetKey, BudgetScope
from batchq.domain.enums import BudgetPeriod, CostGroup
from batchq.domain.ids import JobId, node_of
from batchq.domain.times import EPOCH, MILLISECOND, optional_milliseconds
from batchq.domain.training import MetricValue
from batchq.engine.budgets import BudgetStatus
from batchq.errors import Invalid, NotFound
from batchq.ports.responses.costs import (
    BudgetResponse,
    CostReportResponse,
    CostResponse,
    CostRowResponse,
    CrossingResponse,
    JobCostResponse,
    JobMetricsResponse,
    ListBudgetsResponse,
    MetricResponse,
)
from batchq.ports.responses.server import EmptyResponse
from batchq.services.costs import CostReport, CostRow

LATEST = 253_402_214_400_000  # milliseconds: the last day of the year 9999


Limit = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class CostReportRequest(RequestBody):
    """The time and the groups of a report."""

    by: Annotated[CostGroup, Field(strict=False)] = CostGroup.ACCOUNT
    #: In milliseconds since 1970, rounded down to the day in UTC. None: the beginning of the month.
    since: Milliseconds | None = None
    #: In milliseconds since 1970, rounded up to the end of the day in UTC. None: now.
    until: Milliseconds | None = None


operations = OperationTable(failed=missing_is_404)


@operations.add("GetJobCost", "GET", f"{JOB}/cost", Permission.SELF)
async def get_job_cost(parts: Parts, call: Call[None]) -> JobCostResponse:
    """Returns what a job has cost so far.

    A job costs what it holds while its containers run. The cost of an array is that of its children.
    """
    cost = await parts.costs.of_job(call.job_id, caller=call.caller)
    return JobCostResponse(job_id=call.job_id, cost=None if cost is None else answer_of(CostResponse, cost))


@operations.add("GetJobMetrics", "GET", f"{JOB}/metrics", Permission.SELF)
async def get_job_metrics(parts: Parts, call: Call[None]) -> JobMetricsResponse:
    """Returns the last values of the metrics of a job.

    Tags of SubmitJob with the key `batchq:metric:NAME` name the regular expressions, in RE2 syntax.
    """
    found = await _metrics(parts, call.job_id, call.caller)
    metrics = {
        name: MetricResponse(value=value.value, at=optional_milliseconds(value.at)) for name, value in found.items()
    }
    return JobMetricsResponse(job_id=call.job_id, metrics=metrics)


@operations.add("ReportCosts", "POST", "/v1/batchq/costreport", Permission.SELF)
async def report_costs(parts: Parts, call: Call[CostReportRequest]) -> CostReportResponse:
    """Adds up what jobs cost by account, user, queue or job definition.

    Only jobs that the caller may see are counted.
    """
    body = call.input
    found = await parts.costs.report(body.by, since=_time(body.since), until=_time(body.until), caller=call.caller)
    return _report(body.by, found)


async def _metrics(parts: Parts, job_id: JobId, caller: Caller) -> dict[str, MetricValue]:
    for job in await parts.jobs.describe([node_of(job_id)[0]], caller=caller):
        return dict(await parts.costs.metrics.current(job, caller=caller))
    raise NotFound(f"Job {job_id} not found.")


def _report(by: CostGroup, report: CostReport) -> CostReportResponse:
    return CostReportResponse(
        by=by,
        since=(report.first - EPOCH.date()) // MILLISECOND,
        until=(report.last - EPOCH.date() + timedelta(days=1)) // MILLISECOND,
        rows=tuple(map(_row, report.rows)),
        more=report.more,
    )


def _row(row: CostRow) -> CostRowResponse:
    amounts = row.amounts
    total, gpu, compute = amount(amounts.total), amount(amounts.gpu), amount(amounts.compute)
    return answer_of(CostRowResponse, row, total=total, gpu=gpu, compute=compute)


def _time(given: int | None) -> datetime | None:
    return None if given is None else EPOCH + timedelta(milliseconds=given)


class BudgetRequest(RequestBody):
    """The budget of an account, or that of a queue."""

    #: The name of the account; None for the budget of a queue.
    account: Word | None = None
    #: The name of the job queue; None for the budget of an account.
    job_queue: Word | None = None

    @property
    def key(self) -> BudgetKey:
        """Raises Invalid unless exactly one of the names is given."""
        if self.account is not None and self.job_queue is None:
            return BudgetKey(BudgetScope.ACCOUNT, self.account)
        if self.job_queue is not None and self.account is None:
            return BudgetKey(BudgetScope.QUEUE, self.job_queue)
        raise Invalid("Exactly one of account and jobQueue must be specified.")


class SetBudgetRequest(BudgetRequest):
    """The limits of a budget, in the currency of the server's prices. At least one is required."""

    #: At this cost waiting jobs are cancelled, and no job is accepted or started any more; None: no such limit.
    soft: Limit | None = None
    #: At this cost all jobs are terminated, and no job is accepted any more; None: no such limit.
    hard: Limit | None = None
    period: Annotated[BudgetPeriod, Field(strict=False)] = BudgetPeriod.WHOLE


@operations.add("ListBudgets", "POST", "/v1/batchq/listbudgets", Permission.ACCOUNTS)
async def list_budgets(parts: Parts, call: Call[EmptyRequest]) -> ListBudgetsResponse:
    """Lists budgets with what is spent of them.

    Operators and admins get all budgets, coordinators those of their accounts.
    """
    return ListBudgetsResponse(budgets=tuple(map(_budget, parts.budgets.list(caller=call.caller))))


@operations.add("SetBudget", "POST", "/v1/batchq/setbudget", Permission.CATALOG)
async def set_budget(parts: Parts, call: Call[SetBudgetRequest]) -> BudgetResponse:
    """Sets the budget of an account or a queue.

    A limit that the spending has already reached applies at once.
    """
    body = call.input
    soft, hard = _decimal(body.soft), _decimal(body.hard)
    return _budget(await parts.budgets.set(body.key, soft=soft, hard=hard, period=body.period, caller=call.caller))


@operations.add("RemoveBudget", "POST", "/v1/batchq/removebudget", Permission.CATALOG)
async def remove_budget(parts: Parts, call: Call[BudgetRequest]) -> EmptyResponse:
    """Removes the budget of an account or a queue."""
    await parts.budgets.remove(call.input.key, caller=call.caller)
    return EmptyResponse()


def _budget(status: BudgetStatus) -> BudgetResponse:
    budget = status.budget
    is_account = budget.key.scope is BudgetScope.ACCOUNT
    return answer_of(
        BudgetResponse,
        budget,
        account=budget.key.name if is_account else None,
        job_queue=None if is_account else budget.key.name,
        spent=amount(status.spent),
        crossings=tuple(answer_of(CrossingResponse, crossing) for crossing in status.crossings),
    )


def _decimal(limit: float | None) -> Decimal | None:
    """The limit as the request has it: the binary digits of a float would change the sum."""
    return None if limit is None else Decimal(str(limit))
