"""Stop orders, holds and the use of jobs in responses, in every dialect."""

from batchq.domain.stop_values import Hold, StopOrder, StopStep
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.domain.use import Use
from batchq.ports.history import HoldChange
from batchq.ports.responses.jobs import UseResponse
from batchq.ports.responses.stops import HoldChangeResponse, HoldResponse, StopOrderResponse, StopStepResponse


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


def use_answer(use: Use | None) -> UseResponse | None:
    if use is None:
        return None
    return UseResponse(
        sampled_at=milliseconds(use.sampled_at),
        cpu_seconds=use.cpu_seconds,
        peak_memory_bytes=use.peak_memory,
        working_set_bytes=use.working_set,
        read_bytes=use.bytes_read,
        written_bytes=use.bytes_written,
    )
