"""The quarantine: unreadable values of a job's row are copied to a table, and the row is rebuilt from what is readable.

Readable are its columns, and those members of the JSON that can still be parsed. The rebuilt row is marked as
unreadable; the engine decides what happens to the job. Decision 0015.
"""

import sqlite3
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from msgspec import ValidationError, convert
from msgspec.json import decode as decode_json
from msgspec.structs import replace
from pydantic_core import from_json

from batchq.domain import status_reasons
from batchq.domain.access.accounts import Owner
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.ids import DefinitionRef, JobId, QueueName
from batchq.domain.job import FINISHED, ArrayChild, ArrayState, Job, JobSpec, Status
from batchq.store import rows
from batchq.store.matching import EPOCH
from batchq.store.statements import named

SQL = named("quarantine.sql")

MAY_BE_LEFT = frozenset({"attempt", "attempts", "stop", "cancelled", "started_at", "stopped_at", "tags"})

Connection = sqlite3.Connection
Columns = dict[str, Any]


def set_aside(connection: Connection, orders: Iterable[int]) -> list[Job]:
    """Quarantine the unreadable values of these jobs and rebuild their rows. Returns the rebuilt jobs."""
    jobs = [found for order in orders if (found := _columns(connection, order)) is not None]
    rewritten: list[Job] = []
    for found in jobs:
        array = None if found["parent_ord"] is None else _columns(connection, found["parent_ord"])
        spec = _spec(connection, array or found)
        state = _needing(connection, found, _state(connection, found, array, spec))
        connection.execute(SQL["update_state"], rows.state_row(state, version=state.version))
        rewritten.append(state)
    return rewritten


def unfinished(connection: Connection) -> tuple[JobId, ...]:
    """The unfinished jobs with quarantined values."""
    return tuple(JobId(job_id) for (job_id,) in connection.execute(SQL["unfinished_quarantined_jobs"]))


def count(connection: Connection) -> int:
    (number,) = connection.execute(SQL["count"]).fetchone()
    return int(number)


def _columns(connection: Connection, order: int) -> Columns | None:
    found = connection.execute(SQL["columns"], {"ord": order})
    row = found.fetchone()
    return None if row is None else {name: it for (name, *_), it in zip(found.description, row, strict=True)}


def _keep(connection: Connection, job: Columns, column: str) -> None:
    connection.execute(SQL["insert_quarantine"], {"ord": job["ord"], "column_name": column, "raw": job[column]})


def _spec(connection: Connection, job: Columns) -> JobSpec:
    """The specification of a job, rebuilt if it is unreadable. Children share the one of their array."""
    try:
        return rows.spec(_text(job["spec"]))
    except rows.WRONG:
        _keep(connection, job, "spec")
    spec = _spec_left(job)
    connection.execute(SQL["update_spec"], {"ord": job["ord"], "spec": rows.as_json(spec)})
    return spec


def _spec_left(job: Columns) -> JobSpec:
    size = Resources(millicpus=job["millicpus"], memory_mib=job["memory_mib"], gpus=job["gpus"])
    return JobSpec(
        name=job["name"],
        queue=QueueName(job["queue"]),
        definition=DefinitionRef(name=job["definition"], revision=job["revision"]),
        container=ContainerSpec(image="", resources=size, command=()),
        array_size=job["array_size"] or None,
        scheduling_priority=-job["rank"] or None,
        share_identifier=job["share_identifier"],
        owner=Owner(user=job["owner"], account=job["account"]),
        invalid=status_reasons.UNREADABLE,
        stop_grace=timedelta(),
    )


def _state(connection: Connection, job: Columns, array: Columns | None, spec: JobSpec) -> Job:
    try:
        members = decode_json(_text(job["state"]))
        return rows.matching(job["ord"], job["id"], job["version"], job["status"], rows.job_of(members, spec))
    except rows.WRONG:
        _keep(connection, job, "state")
    return _state_left(job, array, spec, _array_state(connection, job))


def _state_left(job: Columns, array: Columns | None, spec: JobSpec, array_state: ArrayState | None) -> Job:
    """The job from its columns, which take precedence, and from all members of the JSON that are readable."""
    status = _status(job["status"], array_state)
    sure = {
        "id": job["id"],
        "order": job["ord"],
        "version": job["version"],
        "created_at": EPOCH + timedelta(milliseconds=job["created_at"]),
        "status": status,
        "status_reason": status_reasons.UNREADABLE,
        "child": array and ArrayChild(parent=JobId(array["id"]), index=job["ord"] - array["ord"] - 1),
        "array_state": array_state,
        "spec": spec,
    }
    told = _told(job["state"])
    left = {name: told[name] for name in MAY_BE_LEFT & told.keys() if name != "attempt" or status not in FINISHED}
    for name in sorted(left):
        if not _is_readable(sure | {name: left[name]}):
            del left[name]
    return convert(left | sure, Job)


def _status(column: str, array_state: ArrayState | None) -> Status:
    """The status from its column: an unfinished array with children is PENDING, an invalid value SUBMITTED."""
    status = Status(column) if column in set(Status) else Status.SUBMITTED
    return status if array_state is None or status in FINISHED else Status.PENDING


def _told(state: bytes | None) -> dict[str, Any]:
    try:
        told = from_json(state or b"", allow_partial=True)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _is_readable(members: dict[str, Any]) -> bool:
    try:
        convert(members, Job)
    except ValidationError:
        return False
    return True


def _array_state(connection: Connection, job: Columns) -> ArrayState | None:
    """The state of an array with children, recounted from the rows of the children; None without children."""
    if not job["array_size"]:
        return None
    bounds = {"first": job["ord"] + 1, "last": job["ord"] + job["array_size"]}
    statuses = [Status(status) for (status,) in connection.execute(SQL["statuses_of_children"], bounds)]
    if not statuses:
        return None
    return ArrayState(spawned=len(statuses), counts=tuple((it, statuses.count(it)) for it in Status if it in statuses))


def _needing(connection: Connection, job: Columns, state: Job) -> Job:
    """Clear the column `consumable_requirements`, which the placement pass reads, if it is unreadable."""
    try:
        rows.needs_of(None if job["consumable_requirements"] is None else _text(job["consumable_requirements"]))
    except rows.WRONG:
        _keep(connection, job, "consumable_requirements")
        connection.execute(SQL["clear_consumable_requirements"], {"ord": job["ord"]})
        return state if state.status in FINISHED else replace(state, status_reason=status_reasons.UNREADABLE)
    return state


def _text(raw: bytes | None) -> str:
    return str(raw or b"", "utf-8")
