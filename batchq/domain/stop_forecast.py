"""What an order to cancel or terminate a job would do to the job in its present state. Pure.

The outcome and the note are those that the order itself reports; the texts are those of the command line.
"""

from datetime import timedelta

from msgspec import Struct

from batchq.domain.bulk_stop import BulkStopOrder, Kind, Outcome, has_children, note, standing_order, stop_outcome
from batchq.domain.job import FINISHED, QUEUED, Job, Status
from batchq.domain.lifecycle import views
from batchq.domain.stop_words import consequences_of_cancel, consequences_of_terminate, node_note

_SECOND = timedelta(seconds=1)


class StopForecast(Struct, frozen=True, kw_only=True):
    """The effect of an order on one job."""

    outcome: Outcome
    #: What follows for the job, as one or more sentences.
    text: str
    #: Whether the order would change anything.
    has_effect: bool
    #: Whether the job is FAILED in every case, and with it the jobs that depend on it.
    fails: bool


def forecast_stop(order: BulkStopOrder, job: Job, node: int | None = None) -> StopForecast:
    """The effect of an order. `node`: of a multi-node job, if the order is for it; None: the job as a whole."""
    alone = node is not None and not _node_note(order, job, node)
    shown = views.node_view(job, node) if node is not None and alone else job
    became = stop_outcome(order.kind, shown.status, has_children=has_children(shown))
    remark, has_effect = note(order, shown), shown.status not in FINISHED and standing_order(order, shown) is None
    parts = [_consequence(order, shown, became), remark] if has_effect else [remark or f"already {shown.status}"]
    parts += [_of_nodes(order, job, node)] if has_effect else []
    return StopForecast(
        outcome=became,
        text=" ".join(f"{it[0].upper()}{it[1:]}." for it in parts if it),
        has_effect=has_effect,
        fails=not alone and became is not Outcome.NOT_RETRIED,
    )


def _consequence(order: BulkStopOrder, job: Job, became: Outcome) -> str:
    if order.kind is Kind.CANCEL:
        text = consequences_of_cancel()[became]
        return f"{text}; if it succeeds, the job is SUCCEEDED" if became is Outcome.NOT_RETRIED else text
    grace = job.spec.stop_grace if order.grace is None else order.grace
    has_checkpoints = order.checkpoint and job.spec.checkpoints is not None and job.status is Status.RUNNING
    texts = consequences_of_terminate(
        signal=order.signal, grace=round(grace / _SECOND), checkpoint=has_checkpoints, force=order.force
    )
    return texts[became]


def _of_nodes(order: BulkStopOrder, job: Job, node: int | None) -> str:
    if job.spec.nodes is None or job.status in QUEUED:
        return "" if node is None else _node_note(order, job, node)
    if node is None:
        return f"all {job.spec.nodes.count} nodes are stopped" if order.kind is Kind.TERMINATE else ""
    return _node_note(order, job, node) or "the other nodes run on, and the next attempt has all nodes again"


def _node_note(order: BulkStopOrder, job: Job, node: int) -> str:
    nodes = job.spec.nodes
    assert nodes is not None, f"{job.id} has no nodes"
    return node_note(cancels=order.kind is Kind.CANCEL, is_main=node == nodes.main, is_waiting=job.status in QUEUED)
