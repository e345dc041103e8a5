"""Stop orders, holds, entries of the history and the use of jobs in responses, in every dialect."""

from batchq.api.http.answers import answer_of
from batchq.domain.stop_values import Hold, StopOrder, StopStep
from batchq.domain.times import milliseconds
from batchq.domain.use import Use
from batchq.ports.history import GroupEnd, HistoryEntry, HoldChange
from batchq.ports.responses.groups import GroupEndResponse
from batchq.ports.responses.jobs import HistoryEntryResponse, UseResponse
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


def group_end_answer(end: GroupEnd | None) -> GroupEndResponse | None:
    """None for an entry that is not the end of a group."""
    return None if end is None else answer_of(GroupEndResponse, end, group_name=end.name)


def history_entry_answer(entry: HistoryEntry) -> HistoryEntryResponse:
    step = None if entry.stop is None else stop_step_answer(entry.stop)
    hold, group_end = hold_change_answer(entry.hold), group_end_answer(entry.group_end)
    return answer_of(HistoryEntryResponse, entry, stop_order=step, hold=hold, group_end=group_end)


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
