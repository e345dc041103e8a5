"""ListBudgets, SetBudget and RemoveBudget. See docs/cost.md."""

from decimal import Decimal
from http import HTTPStatus
from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.accounts.wire import EmptyAnswer, EmptyRequest
from batchq.api.native.costs import amount
from batchq.api.operation_table import Call, OperationTable
from batchq.domain.access.accounts import Permission
from batchq.domain.budgets import BudgetKey, BudgetLimit, BudgetPeriod, BudgetScope
from batchq.domain.times import milliseconds
from batchq.engine.budgets import BudgetStatus
from batchq.errors import Invalid
from batchq.services.budgets import BudgetService

Word = Annotated[str, Field(min_length=1, max_length=256)]
Limit = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class BudgetRequest(BaseModel):
    """The budget of an account, or that of a queue."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

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


class CrossingAnswer(Struct, frozen=True, kw_only=True):
    """A limit that was reached."""

    limit: BudgetLimit
    #: Milliseconds since 1970.
    at: int
    #: What was spent then.
    spent: float


class BudgetAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
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
    crossings: tuple[CrossingAnswer, ...]


class ListBudgetsAnswer(Struct, frozen=True, kw_only=True):
    """The budgets that the caller may see."""

    #: Those of accounts first, each by name.
    budgets: tuple[BudgetAnswer, ...]


operations = OperationTable[BudgetService](not_found=HTTPStatus.NOT_FOUND)


@operations.add("ListBudgets", "POST", "/v1/batchq/listbudgets", permission=Permission.ACCOUNTS)
async def list_budgets(budgets: BudgetService, call: Call[EmptyRequest]) -> ListBudgetsAnswer:
    """Lists budgets with what is spent of them.

    Operators and admins get all budgets, coordinators those of their accounts.
    """
    return ListBudgetsAnswer(budgets=tuple(map(_budget, budgets.list(caller=call.caller))))


@operations.add("SetBudget", "POST", "/v1/batchq/setbudget", permission=Permission.CATALOG)
async def set_budget(budgets: BudgetService, call: Call[SetBudgetRequest]) -> BudgetAnswer:
    """Sets the budget of an account or a queue.

    A limit that the spending has already reached applies at once.
    """
    body = call.input
    soft, hard = _decimal(body.soft), _decimal(body.hard)
    return _budget(await budgets.set(body.key, soft=soft, hard=hard, period=body.period, caller=call.caller))


@operations.add("RemoveBudget", "POST", "/v1/batchq/removebudget", permission=Permission.CATALOG)
async def remove_budget(budgets: BudgetService, call: Call[BudgetRequest]) -> EmptyAnswer:
    """Removes the budget of an account or a queue."""
    await budgets.remove(call.input.key, caller=call.caller)
    return EmptyAnswer()


def _budget(status: BudgetStatus) -> BudgetAnswer:
    it = status.budget
    is_account = it.key.scope is BudgetScope.ACCOUNT
    return BudgetAnswer(
        account=it.key.name if is_account else None,
        job_queue=None if is_account else it.key.name,
        currency=it.currency,
        soft=None if it.soft is None else amount(it.soft),
        hard=None if it.hard is None else amount(it.hard),
        period=it.period,
        spent=amount(status.spent),
        set_by=it.set_by,
        crossings=tuple(
            CrossingAnswer(limit=crossing.limit, at=milliseconds(crossing.at), spent=amount(crossing.spent))
            for crossing in status.crossings
        ),
    )


def _decimal(limit: float | None) -> Decimal | None:
    """The limit as the request has it: the binary digits of a float would change the sum."""
    return None if limit is None else Decimal(str(limit))
