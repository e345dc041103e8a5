"""The exit status that the end of a job becomes, and the sentence about the end."""

from batchq.cli.exit_statuses import DONE, NO_EXIT_CODE, REFUSED, TIMED_OUT
from batchq.cli.job_columns import reason, status
from batchq.cli.native_api import Row
from batchq.cli.times import long_duration, moment

TIME_LIMIT = "Job attempt duration exceeded timeout"  # AWS's statusReason
HIGHEST_EXIT_CODE = 255


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
