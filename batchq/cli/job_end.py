"""The end of a job in one line, and the exit status of `batchq run` and of `wait` for one job."""

from datetime import timedelta
from typing import Any

from batchq.cli.exit_statuses import DONE, NO_EXIT_CODE, REFUSED, TIMED_OUT
from batchq.cli.times import long_duration

FINISHED = ("SUCCEEDED", "FAILED")
TIME_LIMIT = "Job attempt duration exceeded timeout"  # the statusReason of a job that its time limit has ended
_MILLISECOND = timedelta(milliseconds=1)

#: A job as DescribeJobs returns it.
Job = dict[str, Any]


def exit_status(job: Job) -> int:
    """The exit status for a finished job.

    The exit code of its last attempt; 124 if its time limit ended it; 125 if it has no exit code of its own, because it
    never started, was terminated, or a dependency failed; for an array 0, or 1 if a child failed.
    """
    if job["status"] == "SUCCEEDED":
        return DONE
    if job.get("isTerminated"):
        return NO_EXIT_CODE
    if job.get("statusReason") == TIME_LIMIT:
        return TIMED_OUT
    if "size" in job.get("arrayProperties", {}):
        return NO_EXIT_CODE if job.get("isCancelled") else REFUSED
    return last_exit_code(job) or NO_EXIT_CODE


def last_exit_code(job: Job) -> int | None:
    """The exit code of the last attempt; None if there was no attempt, or it has none."""
    attempts = job.get("attempts", [])
    code = attempts[-1]["container"].get("exitCode") if attempts else None
    return code if isinstance(code, int) else None


def render_end(job: Job, sentence: str = "") -> str:
    """`FAILED after 11 min 57 s: ...`. `sentence`: the server's explanation; empty: the exit code and statusReason."""
    ran = "" if "startedAt" not in job else f" after {long_duration(_run_time(job))}"
    if job["status"] == "SUCCEEDED":
        return f"SUCCEEDED{ran}"
    return f"{job['status']}{ran}: {sentence or _reason(job)}"


def _run_time(job: Job) -> timedelta:
    milliseconds: int = job.get("stoppedAt", job["startedAt"]) - job["startedAt"]
    return milliseconds * _MILLISECOND


def _reason(job: Job) -> str:
    code = last_exit_code(job)
    reasons = [f"exit code {code}" if code is not None else "", job.get("statusReason", "")]
    return "; ".join(filter(None, reasons)) or "no reason is recorded"
