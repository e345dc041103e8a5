"""Words about jobs and their orders, as the command line has them."""

from batchq.domain.ids import node_of, parent_of
from batchq.domain.job import ACTIVE, FINISHED, Job
from batchq.domain.lifecycle.stop_order import awaits_final_checkpoint, latest_order
from batchq.domain.order_words import ORDER_WORDS
from batchq.domain.stop_orders import StopKind


def job_title(job: Job) -> str:
    """The name of a job, with the index of a child or node, as `train:3`."""
    child, (_, node) = parent_of(job.id), node_of(job.id)
    return job.spec.name + ("" if child is None else f":{child[1]}") + ("" if node is None else f"#{node}")


def condition(job: Job) -> str:
    """What the status of an unfinished job does not show: `held`, `paused`, `stopping`, `killed`; else empty."""
    order = latest_order(job)
    if job.status in FINISHED:
        return ""
    if job.status in ACTIVE and order is not None and order.kind is not StopKind.CANCEL:
        if order.killed_at is not None:
            return "killed"
        if awaits_final_checkpoint(job) and order.checkpoint_error is None and order.signalled_at is None:
            return "checkpoint"
        return ORDER_WORDS[order.kind].effect
    if job.hold is None:
        return ""
    return "paused" if job.hold.paused else "held"
