"""Stop orders in responses, in every dialect."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, to_builtins

from batchq.api.http import milliseconds
from batchq.domain.stop_orders import StopKind, StopOrder, StopProgress, StopStep


class StopOrderAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An order to cancel or stop a job."""

    #: CANCEL and TERMINATE are requests of users; TIMEOUT is the job's own timeout; FORCE_FAIL is an administrator's.
    kind: StopKind
    #: The user who gave the order; absent for an order of the server itself.
    user: str | None = None
    #: When it was accepted, in milliseconds since 1970.
    at: int
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: When the stop signal was first delivered, in milliseconds since 1970; absent until then.
    signalled_at: int | None = None
    #: When a container was first killed, in milliseconds since 1970; absent until then.
    killed_at: int | None = None


class StopStepAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A step of a stop order in the history of a job."""

    progress: StopProgress
    kind: StopKind
    #: The user who gave the order; absent for an order of the server itself.
    user: str | None = None
    #: When the order was accepted, in milliseconds since 1970.
    at: int
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: The node that the order stops alone; absent for an order to the whole job.
    node: int | None = None


def stop_order_answer(order: StopOrder) -> StopOrderAnswer:
    return StopOrderAnswer(
        kind=order.kind,
        user=order.user or None,
        at=milliseconds(order.ordered_at),
        reason=order.reason,
        signalled_at=None if order.signalled_at is None else milliseconds(order.signalled_at),
        killed_at=None if order.killed_at is None else milliseconds(order.killed_at),
    )


def stop_orders_members(orders: Sequence[StopOrder]) -> Mapping[str, object]:
    """`stopOrder`, the latest order, and `stopOrders`, all orders, oldest first; neither without an order."""
    answers = [to_builtins(stop_order_answer(it)) for it in orders]
    return {"stopOrder": answers[-1], "stopOrders": answers} if answers else {}


def stop_step_answer(step: StopStep) -> StopStepAnswer:
    return StopStepAnswer(
        progress=step.progress,
        kind=step.kind,
        user=step.user or None,
        at=milliseconds(step.ordered_at),
        reason=step.reason,
        node=step.node,
    )
