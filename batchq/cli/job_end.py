"""The end of a job that DescribeJobs returns, in the form of the rows of batchq's own read API."""

from typing import Any

from batchq.cli.native_api import Row

FINISHED = ("SUCCEEDED", "FAILED")

#: A job as DescribeJobs returns it.
Job = dict[str, Any]


def is_array(job: Job) -> bool:
    return "size" in job.get("arrayProperties", {})


def to_row(job: Job, *, sentence: str) -> Row:
    """The members that `exit_status_of` and `outcome` read. `sentence`: the server's explanation; empty: none."""
    copied = ("jobId", "jobName", "status", "statusReason", "startedAt", "stoppedAt")
    members = {
        **{it: job.get(it) for it in copied},
        "exitCode": _exit_code(job),
        "arraySize": job.get("arrayProperties", {}).get("size"),
        "stopOrder": {"kind": "TERMINATE"} if job.get("isTerminated") else None,
        "why": {"sentence": sentence} if sentence else None,
    }
    return {member: value for member, value in members.items() if value is not None}


def _exit_code(job: Job) -> int | None:
    """The exit code of the last attempt; None if there was no attempt, or it has none."""
    attempts = job.get("attempts", [])
    code = attempts[-1]["container"].get("exitCode") if attempts else None
    return code if isinstance(code, int) else None
