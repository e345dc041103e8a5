"""Stop orders, holds and the use of jobs in responses, in every dialect."""

from batchq.api.http.answers import answer_of
from batchq.domain.stop_values import Hold, StopOrder, StopStep
from batchq.domain.times import milliseconds
from batchq.domain.use import Use
from batchq.ports.history import HoldChange
from batchq.ports.responses.jobs import UseResponse
from batchq.ports.responses.stops import HoldChangeResponse, HoldResponse, StopOrderResponse, StopStepResponse


def stop_order_answer(order: StopOrder) -> StopOrderResponse:
    at, user, forced_by = milliseconds(order.ordered_at), order.user or None, order.forced_by or None
    return answer_of(StopOrderResponse, order, at=at, user=user, forced_by=forced_by)


def stop_step_answer(step: StopStep) -> StopStepResponse:
    return answer_of(StopStepResponse, step, at=milliseconds(step.ordered_at), user=step.user or None)


def hold_answer(hold: Hold | None) -> HoldResponse | None:
    """None for a job that is not held."""
    return None if hold is None else answer_of(HoldResponse, hold, user=hold.user or None)


def hold_change_answer(change: HoldChange | None) -> HoldChangeResponse | None:
    """None for an entry that is not about a hold."""
    if change is None:
        return None
    return HoldChangeResponse(held=hold_answer(change.hold), released_by=change.released_by or None)


def use_answer(use: Use | None) -> UseResponse | None:
    if use is None:
        return None
    return answer_of(
        UseResponse,
        use,
        peak_memory_bytes=use.peak_memory,
        working_set_bytes=use.working_set,
        read_bytes=use.bytes_read,
        written_bytes=use.bytes_written,
    )
