"""The columns of lists of jobs, and the sentences about one job."""

from datetime import datetime

from batchq.cli.native_api import Row
from batchq.cli.search_filters import FINISHED
from batchq.cli.tables import Column
from batchq.cli.times import ago, duration, iso, moment

STYLES = {"RUNNING": "cyan", "STARTING": "cyan", "SUCCEEDED": "green", "FAILED": "red", "RUNNABLE": "yellow"}
SHORT_ID = 8  # digits of an id that a terminal shows


def job_columns(present: datetime) -> list[Column]:
    """The columns of `batchq list`. `present`: the time to which times are relative."""
    return [
        Column(title="JOB", full=_id, short=lambda it: short_id(_id(it))),
        Column(title="NAME", full=lambda it: str(it.get("jobName", "")), elastic=True),
        Column(title="STATE", full=status, style=status_style),
        Column(title="QUEUE", full=lambda it: str(it.get("jobQueue", ""))),
        Column(title="OWNER", full=lambda it: str(it.get("user", ""))),
        Column(title="TIME", full=lambda it: iso(since(it)), short=lambda it: age(it, present)),
        Column(title="WHY", full=reason, elastic=True),
    ]


def short_id(job_id: str) -> str:
    """The first digits of an id, with the step of a child or node: `8f2c51a7:3`."""
    return job_id[:SHORT_ID] + job_id[36:]


def status(row: Row) -> str:
    return str(row.get("status", ""))


def status_style(row: Row) -> str:
    """The name of the colour of the status; empty: none."""
    return STYLES.get(status(row), "")


def since(row: Row) -> datetime | None:
    """When the job ended, else when it started, else when it was created."""
    names = {True: ("stoppedAt",), False: ()}[status(row) in FINISHED]
    started = ("startedAt",) if status(row) == "RUNNING" else ()
    return next((at for it in (*names, *started, "createdAt") if (at := moment(row.get(it)))), None)


def age(row: Row, present: datetime) -> str:
    """`3 min ago` for a finished job, `runs 2 h`, or `waits 14 min`."""
    at = since(row)
    if at is None:
        return ""
    if status(row) in FINISHED:
        return ago(at, present)
    return f"{'runs' if status(row) == 'RUNNING' else 'waits'} {duration(present - at)}"


def reason(row: Row) -> str:
    """Why the job is in its status: the server's explanation, else the stop order or the statusReason."""
    why = row.get("why")
    if isinstance(why, dict) and why.get("sentence"):
        return str(why["sentence"])
    if row.get("stopOrder") and status(row) not in FINISHED:
        return stop_order(row["stopOrder"])
    if status(row) == "FAILED" and "exitCode" in row and row["exitCode"]:
        return f"exit code {row['exitCode']}: {row.get('statusReason', '')}".removesuffix(": ")
    return str(row.get("statusReason", "")) if status(row) != "SUCCEEDED" else ""


def stop_order(order: Row) -> str:
    """`stopping: terminated by cora at 14:02, 'too hot'`; of a running job that is cancelled: `will not be retried`."""
    is_cancel = order.get("kind") == "CANCEL"
    at = moment(order.get("at"))
    effect, verb = ("will not be retried", "cancelled") if is_cancel else ("stopping", "terminated")
    when = f" at {at:%H:%M}" if at else ""
    who = f" by {order['user']}" if order.get("user") else ""
    why = f", {str(order['reason'])!r}" if order.get("reason") else ""
    return f"{effect}: {verb}{who}{when}{why}"


def _id(row: Row) -> str:
    return str(row.get("jobId", ""))
