"""Stop orders and holds of jobs in responses, in every dialect."""

from collections.abc import Mapping

from msgspec import Struct, to_builtins

from batchq.domain.enums import StopKind, StopProgress
from batchq.domain.job import Job
from batchq.domain.lifecycle.stopping import latest_order
from batchq.domain.stop_values import Hold, StopOrder, StopStep
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.ports.history import HoldChange


class StopOrderResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An order to cancel or stop a job."""

    #: PAUSE, CANCEL and TERMINATE are requests of users; TIMEOUT is the job's own; FORCE_FAIL is an administrator's.
    kind: StopKind
    #: The user who gave the order; absent for an order of the server itself.
    user: str | None = None
    #: When it was accepted, in milliseconds since 1970.
    at: int
    #: The number of the attempt that a pause stops; absent for any other order.
    attempt: int | None = None
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: Whether a final checkpoint was requested of a job that could write one.
    final_checkpoint_requested: bool = False
    #: When the checkpoint signal was first delivered, in milliseconds since 1970; absent until then.
    checkpoint_requested_at: int | None = None
    #: The name of the final checkpoint; absent until one is seen.
    final_checkpoint: str | None = None
    #: When the final checkpoint was seen, in milliseconds since 1970; absent until then.
    checkpoint_seen_at: int | None = None
    #: Why the final checkpoint is missing; absent if it is not, or may still come.
    checkpoint_error: str | None = None
    #: Whether the checkpoints from before the order are kept.
    keep_checkpoints: bool = True
    #: When the stop signal was first delivered, in milliseconds since 1970; absent until then.
    signalled_at: int | None = None
    #: When the order was forced, in milliseconds since 1970; absent until then.
    forced_at: int | None = None
    #: The user who forced it; absent until then, and for the server itself.
    forced_by: str | None = None
    #: When a container was first killed, in milliseconds since 1970; absent until then.
    killed_at: int | None = None


class StopStepResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A step of a stop order in the history of a job."""

    progress: StopProgress
    kind: StopKind
    #: The user who gave the order or, of FORCED, who forced it; absent for the server itself.
    user: str | None = None
    #: When the order was accepted, in milliseconds since 1970.
    at: int
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: The name of the final checkpoint, of CHECKPOINT_SEEN; absent otherwise.
    checkpoint: str | None = None
    #: The node that the order stops alone; absent for an order to the whole job.
    node: int | None = None
    #: The container of a task that the order stops alone; absent for an order to the whole job.
    container: str | None = None


def stop_order_answer(order: StopOrder) -> StopOrderResponse:
    return StopOrderResponse(
        kind=order.kind,
        user=order.user or None,
        at=milliseconds(order.ordered_at),
        attempt=order.attempt,
        reason=order.reason,
        final_checkpoint_requested=order.final_checkpoint_requested,
        checkpoint_requested_at=optional_milliseconds(order.checkpoint_requested_at),
        final_checkpoint=order.final_checkpoint,
        checkpoint_seen_at=optional_milliseconds(order.checkpoint_seen_at),
        checkpoint_error=order.checkpoint_error,
        keep_checkpoints=order.keep_checkpoints,
        signalled_at=optional_milliseconds(order.signalled_at),
        forced_at=optional_milliseconds(order.forced_at),
        forced_by=order.forced_by or None,
        killed_at=optional_milliseconds(order.killed_at),
    )


def stop_orders_members(job: Job) -> Mapping[str, object]:
    """`stopOrder`, the latest order, and `stopOrders`, all orders, oldest first; neither without an order.

    A pause of an attempt that has ended is only in `stopOrders`.
    """
    if not job.stop_orders:
        return {}
    every: dict[str, object] = {"stopOrders": [to_builtins(stop_order_answer(order)) for order in job.stop_orders]}
    latest = latest_order(job)
    return every if latest is None else {"stopOrder": to_builtins(stop_order_answer(latest)), **every}


def stop_step_answer(step: StopStep) -> StopStepResponse:
    return StopStepResponse(
        progress=step.progress,
        kind=step.kind,
        user=step.user or None,
        at=milliseconds(step.ordered_at),
        reason=step.reason,
        checkpoint=step.checkpoint,
        node=step.node,
        container=step.container,
    )


class HoldResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Why a job is held: it does not start until it is released or resumed."""

    #: The caller's reason.
    reason: str
    #: The user who holds it; absent for the server itself.
    user: str | None = None
    #: Milliseconds since 1970.
    held_at: int
    #: Whether it was paused. A STARTING or RUNNING job with a hold is being paused.
    paused: bool = False


class HoldChangeResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An entry of a job's history: the job was held or released."""

    #: The hold; absent if the job was released.
    held: HoldResponse | None = None
    #: The user who released or resumed it; absent for a hold, and for the server itself.
    released_by: str | None = None


def hold_answer(hold: Hold | None) -> HoldResponse | None:
    """None for a job that is not held."""
    if hold is None:
        return None
    return HoldResponse(
        reason=hold.reason, user=hold.user or None, held_at=milliseconds(hold.held_at), paused=hold.paused
    )


def hold_change_answer(change: HoldChange | None) -> HoldChangeResponse | None:
    """None for an entry that is not about a hold."""
    if change is None:
        return None
    return HoldChangeResponse(held=hold_answer(change.hold), released_by=change.released_by or None)
