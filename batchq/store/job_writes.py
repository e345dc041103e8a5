"""Writes of a unit of work: the rows of jobs and of everything saved with them. Part of one transaction."""

from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from operator import attrgetter
from sqlite3 import Connection
from typing import Any

from batchq.domain.enums import FINISHED
from batchq.domain.ids import ConsumableName, JobId
from batchq.domain.job import Job
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.times import microseconds
from batchq.errors import Conflict
from batchq.ports.jobs import Changes, Restoration, SurveyRecord
from batchq.ports.logs import LogStream
from batchq.store import audit, bulk_stops, costs, groups, history, lists, rows
from batchq.store.statements import Row, execute_each, load_statements

SQL = load_statements("job_writes.sql")

MAX_SUBMISSIONS_DELETED = 1000  # submissions deleted at a time, to bound the cost of one unit of work


def commit_changes(connection: Connection, changes: Changes) -> int | None:
    """Save a unit of work. Returns the number of the first history entry; None without one.

    A unit of work changes few tables: only their writers are called. Targets of new bulk stops are selected last, so
    that the filter sees all changes.
    """
    ends: dict[JobId, int] = {}
    for entry in changes.history:
        if entry.status in FINISHED and entry.is_status:
            ends[entry.job_id] = microseconds(entry.at)
    if changes.inserted:
        _insert(connection, changes.inserted)
    if changes.updated:
        _update(connection, changes, ends)
    first_number = _insert_history(connection, changes, ends) if changes.history else None
    if changes.submissions or changes.delete_submissions_before is not None:
        _insert_submissions(connection, changes)
    for member, write in _WRITERS:
        if value := getattr(changes, member):
            write(connection, value)
    if changes.bulk_stops:
        bulk_stops.insert_bulk_stops(connection, changes)
    return first_number


def _insert_streams(connection: Connection, streams: Sequence[LogStream]) -> None:
    execute_each(connection, lists.SQL["insert_stream"], map(rows.stream_row, streams))


def _put_shares(connection: Connection, shares: Sequence[tuple[ShareKey, ShareUse]]) -> None:
    execute_each(connection, SQL["put_share_usage"], starmap(rows.share_usage_row, shares))


def _put_used_up(connection: Connection, used_up: Sequence[tuple[ConsumableName, int]]) -> None:
    new: list[Row] = [{"resource": rows.text(name), "units": rows.integer(units)} for name, units in used_up]
    execute_each(connection, SQL["put_consumed_units"], new)


def _put_engine_id(connection: Connection, engine_id: str) -> None:
    connection.execute(SQL["put_engine_id"], {"value": rows.text(engine_id)})


def put_restoration(connection: Connection, restoration: Restoration) -> None:
    connection.execute(SQL["put_restoration"], {"value": rows.as_json(restoration)})


def put_survey(connection: Connection, survey: SurveyRecord) -> None:
    connection.execute(SQL["put_survey"], {"value": rows.as_json(survey)})


def _insert(connection: Connection, jobs: Sequence[Job]) -> None:
    """Insert jobs with their specifications and dependencies. Children share the specification of their array."""
    execute_each(connection, SQL["insert_job"], map(rows.new_job_row, jobs))
    for job in jobs:
        if job.child is None:
            connection.execute(SQL["insert_spec"], rows.spec_row(job))
            if job.spec.needs:
                execute_each(connection, SQL["insert_consumable_resource"], rows.need_rows(job))
        if job.spec.depends_on and waits(job):
            execute_each(connection, SQL["insert_dependency"], _dependency_rows(job))


def _update(connection: Connection, changes: Changes, ends: Mapping[JobId, int]) -> None:
    """Update jobs, with one of three statements, so that only changed columns and indexes are written.

    `update_state` serves jobs that keep their status, `update_job` those with a new status, `finish_job` those that
    ended. Dependencies are deleted once a job no longer waits for them.
    """
    jobs, moved = changes.updated, set(map(attrgetter("job_id"), changes.history))
    unmoved_rows: list[Row] = []
    moved_rows: list[Row] = []
    ended: list[Row] = []
    for job in jobs:
        row = rows.state_row(job, version=job.version + 1)
        if job.id in ends:
            row["finished_at"] = ends[job.id]
            ended.append(row)
        else:
            (moved_rows if job.id in moved else unmoved_rows).append(row)
    written = execute_each(connection, SQL["update_state"], unmoved_rows) if unmoved_rows else 0
    # `passed_over` and `has_array_work` may change without a new status: then all columns are updated.
    if written < len(unmoved_rows):
        moved_rows += unmoved_rows
    if moved_rows:
        written += execute_each(connection, SQL["update_job"], moved_rows)
    if ended:
        written += execute_each(connection, SQL["finish_job"], ended)
    if written != len(jobs):
        raise Conflict(_conflict(connection, jobs))
    for job in jobs:
        if job.spec.depends_on and not waits(job):
            execute_each(connection, SQL["delete_dependency"], _dependency_rows(job))


def _conflict(connection: Connection, updated: Sequence[Job]) -> str:
    """The text of the Conflict: the first job that was not updated. The transaction is still open."""
    for job in updated:
        found = connection.execute(SQL["version"], {"id": rows.text(job.id)}).fetchone()
        if found is None or found[0] != job.version + 1:
            return f"job {job.id} is not at version {job.version}"
    return f"one of {len(updated)} jobs has a newer version"


def _insert_history(connection: Connection, changes: Changes, ends: Mapping[JobId, int]) -> int | None:
    """Insert history entries, and set `finished_at` of ended jobs that `_update` has not written.

    Returns the number of the first entry; None without one.
    """
    sequences = {job.id: job.sequence for job in (*changes.inserted, *changes.updated)}
    first_number = history.insert_entries(connection, changes.history, sequences)
    if ends:
        updated = set(map(attrgetter("id"), changes.updated))
        late: list[Row] = [{"id": rows.text(job_id), "at": at} for job_id, at in ends.items() if job_id not in updated]
        execute_each(connection, SQL["set_finished_at"], late)
    return first_number


def _dependency_rows(job: Job) -> list[Row]:
    return [{"dependency_id": rows.text(on), "sequence": job.sequence} for on in waits_for(job)]


def _insert_submissions(connection: Connection, changes: Changes) -> None:
    """Insert submissions, and delete expired ones. Raises Conflict if one is stored already.

    An expired row that is not deleted yet is replaced: a burst may leave more of them than one commit deletes.
    """
    before = 0 if changes.delete_submissions_before is None else microseconds(changes.delete_submissions_before)
    if before:
        connection.execute(SQL["delete_submissions"], {"before": before, "limit": MAX_SUBMISSIONS_DELETED})
    new = [
        rows.submission_key_row(key) | {"job_id": rows.text(job_id), "at": microseconds(at), "before": before}
        for key, job_id, at in changes.submissions
    ]
    if execute_each(connection, SQL["insert_submission"], new) < len(new):
        raise Conflict(f"one of {len(new)} submissions is stored already")


#: The other members of `Changes`, each with the function that writes it.
_WRITERS: tuple[tuple[str, Callable[[Connection, Any], None]], ...] = (
    ("streams", _insert_streams),
    ("audit_records", audit.insert_records),
    ("shares", _put_shares),
    ("used_up", _put_used_up),
    ("groups", groups.write_groups),
    ("spending", costs.add_spending),
    ("budgets", costs.write_budgets),
    ("restoration", put_restoration),
    ("engine_id", _put_engine_id),
    ("survey", put_survey),
    ("progress", bulk_stops.delete_stopped),
)
