"""The stored clock anchor, and the shift of stored times after the clock was set. Decision 0035."""

from collections.abc import Iterator, Sequence
from sqlite3 import Connection

from msgspec.structs import replace

from batchq.domain.catalog import JobQueue
from batchq.domain.job import Job
from batchq.domain.lifecycle.deadlines import ClockShift, shifted
from batchq.domain.times import MICROSECOND, microseconds, milliseconds
from batchq.ports.clock import ClockAnchor
from batchq.store import catalog, job_reads, job_writes, rows
from batchq.store.statements import Row, execute_each, load_statements

SQL = load_statements("clock_shift.sql")
PAGE = 500  # jobs in memory at a time

_COLUMNS = (
    "shift_finished_at",
    "shift_submissions",
    "shift_consumable_resource_updates",
    "shift_audit_log",
)


def clock_anchor(connection: Connection) -> ClockAnchor | None:
    row = connection.execute(SQL["clock_anchor"]).fetchone()
    return None if row is None else rows.CLOCK_ANCHOR.decode(row[0])


def put_anchor(connection: Connection, anchor: ClockAnchor, shift: ClockShift | None) -> None:
    if shift is not None:
        _shift_jobs(connection, shift)
        _shift_shares(connection, shift)
        _shift_queues(connection, shift)
        _shift_survey(connection, shift)
        since, until = microseconds(shift.since), microseconds(shift.until)
        for statement in _COLUMNS:
            connection.execute(SQL[statement], {"by": shift.by // MICROSECOND, "since": since, "until": until})
    connection.execute(SQL["put_clock_anchor"], {"value": rows.as_json(anchor)})


def _shift_jobs(connection: Connection, shift: ClockShift) -> None:
    sequences = [sequence for (sequence,) in connection.execute(SQL["jobs_with_deciding_times"])]
    for first in range(0, len(sequences), PAGE):
        page = _readable_jobs(connection, sequences[first : first + PAGE])
        execute_each(connection, SQL["shift_job"], [_row(shifted(job, shift)) for job in page])


def _readable_jobs(connection: Connection, sequences: Sequence[int]) -> Iterator[Job]:
    """The readable jobs. A damaged row is left as it is; it is quarantined when the engine reads it."""
    for sequence in sequences:
        for row in connection.execute(job_reads.SQL["jobs_by_sequence"], {"sequences": f"[{sequence}]"}).fetchall():
            try:
                yield rows.job_of_row(row)
            except rows.DECODE_ERRORS:
                continue


def _row(job: Job) -> Row:
    """The changed columns. The version stays the same, because no server has read the job yet."""
    return {
        "sequence": job.sequence,
        "state": rows.state_row(job, version=job.version)["state"],
        "created_at": milliseconds(job.created_at),
    }


def _shift_shares(connection: Connection, shift: ClockShift) -> None:
    shifted_rows: list[Row] = []
    for row in connection.execute(SQL["share_usage"]).fetchall():
        try:
            key, use = rows.share_usage(*row)
        except rows.DECODE_ERRORS:
            continue
        shifted_rows.append(rows.share_usage_row(key, replace(use, as_of=shift.of(use.as_of))))
    execute_each(connection, job_writes.SQL["put_share_usage"], shifted_rows)


def _shift_queues(connection: Connection, shift: ClockShift) -> None:
    for _, value in connection.execute(catalog.SQL["resources"], {"kind": JobQueue.__name__}).fetchall():
        try:
            queue: JobQueue = rows.RESOURCES[JobQueue].decode(value)
        except rows.DECODE_ERRORS:
            continue
        catalog.put_resource(connection, replace(queue, created_at=shift.of(queue.created_at)))


def _shift_survey(connection: Connection, shift: ClockShift) -> None:
    survey = job_reads.last_survey(connection)
    if survey is not None:
        unseen = {job_id: None if at is None else shift.of(at) for job_id, at in survey.unseen.items()}
        job_writes.put_survey(connection, replace(survey, began_at=shift.of(survey.began_at), unseen=unseen))
