"""The end of a job: the exit status of a command that waits for it, and the sentence that reports it."""

from typing import Any

from batchq.cli.job_columns import reason, status
from batchq.cli.output import DONE, NO_EXIT_CODE, REFUSED, TIMED_OUT
from batchq.cli.server_requests import Row
from batchq.cli.times import long_duration, moment

FINISHED = ("SUCCEEDED", "FAILED")

#: A job as DescribeJobs returns it.
Job = dict[str, Any]
TIME_LIMIT = "Job attempt duration exceeded timeout"  # AWS's statusReason
HIGHEST_EXIT_CODE = 255


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


def exit_status_of(job: Row) -> int:
    """The exit status of a command that waits for this finished job.

    The job's own exit code; TIMED_OUT if its time limit ended it; NO_EXIT_CODE if it never started or was stopped. An
    array has no exit code: DONE or REFUSED.
    """
    if status(job) == "SUCCEEDED":
        return DONE
    if "arraySize" in job:
        return REFUSED
    if str(job.get("statusReason", "")).startswith(TIME_LIMIT):
        return TIMED_OUT
    order, code = job.get("stopOrder"), job.get("exitCode")
    was_terminated = isinstance(order, dict) and order.get("kind") == "TERMINATE"
    if was_terminated or not isinstance(code, int) or not 0 < code <= HIGHEST_EXIT_CODE:
        return NO_EXIT_CODE
    return code


def outcome(job: Row) -> str:
    """`train FAILED after 11 min 57 s: exit code 1: Essential container in task exited`."""
    started, stopped = moment(job.get("startedAt")), moment(job.get("stoppedAt"))
    took = f" after {long_duration(stopped - started)}" if started and stopped else ""
    why = reason(job)
    return f"{job.get('jobName')} {status(job)}{took}{why and f': {why}'}"
