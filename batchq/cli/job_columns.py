"""The columns of lists of jobs, and the sentences about one job."""

from collections.abc import Callable, Sequence
from datetime import datetime

from batchq.cli.quantities import ago, format_duration, iso_text, local_time
from batchq.cli.server_requests import ACTIVE, FINISHED, Row
from batchq.cli.tables import Column, text_column, time_column
from batchq.domain.ids import short_id
from batchq.domain.stop_messages import ORDER_WORDS
from batchq.errors import UsageError

STYLES = {"RUNNING": "cyan", "STARTING": "cyan", "SUCCEEDED": "green", "FAILED": "red", "RUNNABLE": "yellow"}
DEFAULT_COLUMNS = ("job", "name", "state", "queue", "owner", "time", "why")
TIMES = {"CREATED": "createdAt", "STARTED": "startedAt", "ENDED": "stoppedAt"}


def job_columns(present: datetime, names: Sequence[str] = DEFAULT_COLUMNS) -> list[Column]:
    """The columns of `batchq list` with these names, which are their titles in any case. Raises UsageError.

    `present`: the time to which times are relative.
    """
    known = {column.title: column for column in _all_columns(present)}
    for name in names:
        if name.upper() not in known:
            raise UsageError(f"unknown column {name!r}; the columns are {', '.join(known).lower()}")
    return [known[name.upper()] for name in names]


def _all_columns(present: datetime) -> list[Column]:
    return [
        Column(title="JOB", full=_id, short=lambda row: short_id(_id(row))),
        text_column("NAME", "jobName", elastic=True),
        Column(title="STATE", full=status, short=state, style=status_style),
        text_column("QUEUE", "jobQueue"),
        text_column("OWNER", "user"),
        Column(
            title="TIME", full=lambda other_row: iso_text(since(other_row)), short=lambda one_row: age(one_row, present)
        ),
        Column(title="WHY", full=_why, short=lambda item: _why(item, short_id), elastic=True),
        text_column("ACCOUNT", "account"),
        text_column("DEFINITION", "jobDefinition", elastic=True),
        text_column("SHARE", "shareIdentifier"),
        text_column("PRIORITY", "priority", right=True),
        text_column("ATTEMPT", "attempt", right=True),
        text_column("EXIT", "exitCode", right=True),
        *(time_column(title, member, present=present) for title, member in TIMES.items()),
    ]


def status(row: Row) -> str:
    return str(row.get("status", ""))


def state(row: Row) -> str:
    """The status; of a held job with `held` or `paused`, and of a job that is stopping with what happens to it."""
    hold, order = row.get("hold"), row.get("stopOrder")
    if status(row) in FINISHED:
        return status(row)
    if status(row) in ACTIVE and isinstance(order, dict) and order.get("kind") != "CANCEL":
        return f"{status(row)} {_progress(order)}"
    if not isinstance(hold, dict):
        return status(row)
    return f"{status(row)} {'paused' if hold.get('paused') else 'held'}"


def _progress(order: Row) -> str:
    """What a stop order does to a running job at present."""
    if "killedAt" in order:
        return "killed"
    is_awaited = order.get("finalCheckpointRequested") and not {"finalCheckpoint", "checkpointError"} & order.keys()
    if is_awaited and "signalledAt" not in order:
        return "checkpoint"
    return ORDER_WORDS.get(str(order.get("kind")), ORDER_WORDS["TERMINATE"]).effect


def status_style(row: Row) -> str:
    """The name of the colour of the status; empty: none."""
    return STYLES.get(status(row), "")


def since(row: Row) -> datetime | None:
    """When the job ended, else when it started, else when it was created."""
    member = "stoppedAt" if status(row) in FINISHED else "startedAt" if status(row) == "RUNNING" else "createdAt"
    return local_time(row.get(member)) or local_time(row.get("createdAt"))


def age(row: Row, present: datetime) -> str:
    """`3 min ago` for a finished job, `runs 2 h`, or `waits 14 min`."""
    at = since(row)
    if at is None:
        return ""
    if status(row) in FINISHED:
        return ago(at, present)
    return f"{'runs' if status(row) == 'RUNNING' else 'waits'} {format_duration(present - at)}"


def reason_of_row(row: Row) -> str:
    """Why the job is in its status: the server's explanation, else the stop order or the statusReason."""
    why = row.get("why")
    if isinstance(why, dict) and why.get("sentence"):
        return str(why["sentence"])
    if row.get("stopOrder") and status(row) not in FINISHED:
        return stop_order(row["stopOrder"])
    if status(row) == "FAILED" and "exitCode" in row and row["exitCode"]:
        return f"exit code {row['exitCode']}: {row.get('statusReason', '')}".removesuffix(": ")
    return str(row.get("statusReason", "")) if status(row) != "SUCCEEDED" else ""


def resubmission(row: Row) -> str:
    """The id of the job that repeats this one; empty without one."""
    return str(row.get("resubmittedAs", ""))


def _why(row: Row, shown: Callable[[str], str] = str) -> str:
    """The reason of the row, and as which job it was submitted again. `shown`: renders the id of that job."""
    reason, rerun = reason_of_row(row), resubmission(row)
    return f"{reason.removesuffix('.')}; submitted again as {shown(rerun)}".removeprefix("; ") if rerun else reason


def stop_order(order: Row, *, has_ended: bool = False) -> str:
    """`stopping: terminated by cora at 14:02, 'too hot'`; of a running job that is cancelled: `will not be retried`.

    `has_ended`: the job has ended, and the effect is left out.
    """
    at = local_time(order.get("at"))
    effect, verb = ORDER_WORDS.get(str(order.get("kind")), ORDER_WORDS["TERMINATE"])
    when = f" at {at:%H:%M}" if at else ""
    who = f" by {order['user']}" if order.get("user") else ""
    why = f", {str(order['reason'])!r}" if order.get("reason") else ""
    return f"{'' if has_ended else f'{effect}: '}{verb}{who}{when}{why}"


def _id(row: Row) -> str:
    return str(row.get("jobId", ""))
