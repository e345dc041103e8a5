"""The response of GetJobQueueSnapshot."""

from batchq.api.batch.arns import BatchArns
from batchq.api.http import milliseconds
from batchq.ports.catalog import Snapshot

UNIT = "VCPU"
"""AWS: the capacityUnit of jobs that do not run on Kubernetes."""

Content = dict[str, object]


def detail(snapshot: Snapshot, arns: BatchArns, *, fair: bool) -> Content:
    """`fair`: the queue has a scheduling policy, so the response includes the usage of its shares."""
    updated = {"lastUpdatedAt": milliseconds(snapshot.updated_at)}
    shares = {"fairshareUtilization": _shares(snapshot)} if fair else {}
    front = [
        {"jobArn": arns.job(job_id), "earliestTimeAtPosition": milliseconds(since)} for job_id, since in snapshot.jobs
    ]
    return {
        "frontOfQueue": {"jobs": front, **updated},
        "queueUtilization": {"totalCapacityUsage": [_usage(snapshot.millicpus)], **shares, **updated},
    }


def _shares(snapshot: Snapshot) -> Content:
    return {
        "activeShareCount": snapshot.active_shares,
        "topCapacityUtilization": [
            {"shareIdentifier": share, "capacityUsage": [_usage(millicpus)]} for share, millicpus in snapshot.shares
        ],
    }


def _usage(millicpus: int) -> Content:
    return {"capacityUnit": UNIT, "quantity": millicpus / 1000}
