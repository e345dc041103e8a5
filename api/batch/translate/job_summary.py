"""A job in the response of ListJobs; and members about owner, times, array and node that DescribeJobs has, too."""

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.translate.attempts import Content, latest, outcome, said
from batchq.api.http import milliseconds
from batchq.domain.created_paths import status_reason
from batchq.domain.ids import node_of
from batchq.domain.job import Job, Status
from batchq.domain.lifecycle.arrays import is_parent


def job_summary(job: Job, arns: BatchArns) -> Content:
    """AWS: isCancelled and isTerminated are present only if they are true."""
    run = latest(job)
    return said(
        {
            "jobArn": arns.job(job.id),
            "jobId": job.id,
            "jobName": job.spec.name,
            "jobDefinition": arns.definition(job.spec.definition),
            "status": job.status.value,
            "statusReason": status_reason(job),
            **times(job),
            "container": None if run is None else outcome(run),
            "arrayProperties": array(job),
            "nodeProperties": _nodes(job),
            "capacityUsage": None if is_parent(job) else [{"capacityUnit": "VCPU", "quantity": _vcpus(job)}],
            "shareIdentifier": job.spec.share_identifier,
            "isCancelled": job.is_cancelled or None,
            "isTerminated": job.is_terminated or None,
            "batchq": owner(job),
        }
    )


def owner(job: Job) -> Content:
    """The owner of a job. AWS has no such member; clients ignore members that they do not know. Decision 0025."""
    whose = job.spec.owner
    return {"user": whose.user, "account": whose.account}


def times(job: Job) -> Content:
    return {
        "createdAt": milliseconds(job.created_at),
        "startedAt": job.started_at and milliseconds(job.started_at),
        "stoppedAt": job.stopped_at and milliseconds(job.stopped_at),
    }


def array(job: Job) -> Content | None:
    """For an array its size and the number of children in each of the seven statuses; for a child its index."""
    if job.child is not None:
        return {"index": job.child.index}
    if job.spec.array_size is None:
        return None
    counts = {} if job.array_state is None else dict(job.array_state.counts)
    counted_at = job.array_state and job.array_state.counted_at
    return said(
        {
            "size": job.spec.array_size,
            "statusSummary": {status.value: counts.get(status, 0) for status in Status},
            "statusSummaryLastUpdatedAt": counted_at and milliseconds(counted_at),
        }
    )


def node(job: Job) -> Content | None:
    """The number of a node, and whether it is the main one; None if the job is not a node."""
    number = node_of(job.id)[1]
    if number is None or job.spec.nodes is None:
        return None
    return {"nodeIndex": number, "isMainNode": number == job.spec.nodes.main}


def _nodes(job: Job) -> Content | None:
    gang = job.spec.nodes
    return None if gang is None else {"numNodes": gang.count, **(node(job) or {})}


def _vcpus(job: Job) -> int | float:
    spec = job.spec
    held = spec.task.resources if spec.task is not None else spec.resources
    whole, rest = divmod(held.millicpus, 1000)
    return held.millicpus / 1000 if rest else whole
