"""What an order to cancel or terminate a job would do to the job in its present state. Pure.

The outcome and the note are those that the order itself reports; the texts are those of the command line.
"""

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from batchq.domain.bulk_stop import has_children, note, standing_order, stop_outcome, unfinished_children
from batchq.domain.enums import FINISHED, QUEUED, Outcome, Status, StopKind
from batchq.domain.job import Job
from batchq.domain.lifecycle import views
from batchq.domain.lifecycle.escalation import stop_steps
from batchq.domain.stop_messages import consequences_of_cancel, consequences_of_terminate, node_note
from batchq.domain.stop_request import StopRequest
from batchq.domain.task import DefinitionForm
from batchq.domain.wording import counted, duration_words, number

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


def forecast_stop(request: StopRequest, job: Job, node: int | None = None) -> StopForecast:
    """The effect of an request. `node`: of a multi-node job, if the order is for it; None: the job as a whole."""
    alone = node is not None and not _node_note(request, job, node)
    shown = views.node_view(job, node) if node is not None and alone else job
    became = stop_outcome(request.kind, shown.status, has_children=has_children(shown))
    has_effect = shown.status not in FINISHED and standing_order(request, shown) is None
    if has_effect:
        text = _texts(request, shown)[Outcome.CONTAINER_STOPPING if alone else became]
        parts = [*_consequences(request, shown, became, text), _of_nodes(request, job, node)]
    else:
        parts = [note(request, shown) or f"already {shown.status}"]
    return StopForecast(
        outcome=became,
        text=" ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part),
        has_effect=has_effect,
        fails=not alone and became is not Outcome.NOT_RETRIED,
    )


def _consequences(request: StopRequest, job: Job, became: Outcome, text: str) -> list[str]:
    """`text`: what follows, in the words of the command line."""
    if has_children(job):
        waiting, active = unfinished_children(job)
        ended = f"{counted(waiting, 'child is', 'children are')} FAILED at once" if waiting else ""
        running = f"{counted(active, 'child runs', 'children run')}: {text}"
        if request.kind is StopKind.CANCEL:
            running = f"{text} ({number(active)} run now)"
        return [ended, running if active else ""]
    if became is Outcome.NOT_RETRIED:
        return [f"{text}; if it succeeds, the job is SUCCEEDED"]
    if job.status is Status.STARTING:
        abandoned = "the start is abandoned if the container engine has not received it"
        return [abandoned, f"otherwise, as soon as it runs: {text}"]
    return [text, note(request, job)]


def _texts(request: StopRequest, job: Job) -> Mapping[str, str]:
    """What follows, by outcome, with the signals and the times of the job's own stop steps."""
    if request.kind is StopKind.CANCEL:
        return consequences_of_cancel()
    requests = request.checkpoint and (job.status is Status.RUNNING or job.array_state is not None)
    grace = job.spec.stop_grace if request.grace is None else request.grace
    steps = stop_steps(job.spec.checkpoints, signal=request.signal, grace=grace, checkpoint=requests)
    first, last = steps[0], steps[-1]
    signal = request.signal or "SIGTERM"
    if first.until_checkpoint:
        signal = f"{first.signal} and up to {duration_words(first.wait)} for a final checkpoint, {signal}"
    return consequences_of_terminate(
        signal=signal,
        grace=round(last.wait / _SECOND),
        checkpoint=requests and job.spec.checkpoints is not None and not first.until_checkpoint,
        force=request.force,
    )


def _of_nodes(request: StopRequest, job: Job, node: int | None) -> str:
    if job.spec.nodes.form is not DefinitionForm.NODES or job.status in QUEUED:
        return "" if node is None else _node_note(request, job, node)
    if node is None:
        return f"all {job.spec.nodes.count} nodes are stopped" if request.kind is StopKind.TERMINATE else ""
    return _node_note(request, job, node) or "the next attempt has all nodes again"


def _node_note(request: StopRequest, job: Job, node: int) -> str:
    is_main = node == job.spec.nodes.main
    return node_note(cancels=request.kind is StopKind.CANCEL, is_main=is_main, is_waiting=job.status in QUEUED)
