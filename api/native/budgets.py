"""ListBudgets, SetBudget and RemoveBudget. See docs/cost.md."""

from decimal import Decimal
from http import HTTPStatus
from typing import Annotated

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, HttpRefusal, milliseconds, parse, read_body, reply
from batchq.api.native.costs import amount
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.domain.budgets import BudgetKey, BudgetLimit, BudgetPeriod, BudgetScope
from batchq.engine.budgets import BudgetStatus
from batchq.errors import Invalid, NotFound
from batchq.services.budgets import BudgetService

LIST_BUDGETS = "/v1/batchq/listbudgets"
SET_BUDGET = "/v1/batchq/setbudget"
REMOVE_BUDGET = "/v1/batchq/removebudget"

Word = Annotated[str, Field(min_length=1, max_length=256)]
Limit = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class ListBudgetsRequest(BaseModel):
    """An empty object."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


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


class RemoveBudgetAnswer(Struct, frozen=True):
    """An answer without members."""


_LIST_DOC = OperationDoc(
    name="ListBudgets",
    summary="Lists budgets with what is spent of them.",
    description="Operators and admins get all budgets, coordinators those of their accounts.",
    body=ListBudgetsRequest,
    answer=ListBudgetsAnswer,
    permission=Permission.ACCOUNTS,
)
_SET_DOC = OperationDoc(
    name="SetBudget",
    summary="Sets the budget of an account or a queue.",
    description="A limit that is reached already applies at once.",
    body=SetBudgetRequest,
    answer=BudgetAnswer,
    permission=Permission.CATALOG,
)
_REMOVE_DOC = OperationDoc(
    name="RemoveBudget",
    summary="Removes the budget of an account or a queue.",
    body=BudgetRequest,
    answer=RemoveBudgetAnswer,
    permission=Permission.CATALOG,
)


def dialect(budgets: BudgetService) -> Dialect:
    async def list_budgets(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.ACCOUNTS, "ListBudgets")
        parse(ListBudgetsRequest, await read_body(request))
        return reply(ListBudgetsAnswer(budgets=tuple(map(_budget, budgets.list(caller=caller)))))

    async def set_budget(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.CATALOG, "SetBudget")
        body = parse(SetBudgetRequest, await read_body(request))
        try:
            found = await budgets.set(
                body.key, soft=_decimal(body.soft), hard=_decimal(body.hard), period=body.period, caller=caller
            )
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(_budget(found))

    async def remove_budget(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.CATALOG, "RemoveBudget")
        body = parse(BudgetRequest, await read_body(request))
        try:
            await budgets.remove(body.key, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        return reply(RemoveBudgetAnswer())

    def mount(app: web.Application) -> None:
        document(app, app.router.add_post(LIST_BUDGETS, list_budgets), _LIST_DOC)
        document(app, app.router.add_post(SET_BUDGET, set_budget), _SET_DOC)
        document(app, app.router.add_post(REMOVE_BUDGET, remove_budget), _REMOVE_DOC)

    return mount


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
    """The limit as it was written: a float's own digits would add up wrongly."""
    return None if limit is None else Decimal(str(limit))
