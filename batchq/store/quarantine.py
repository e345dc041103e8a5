"""Unreadable rows: the row of a job is quarantined and rebuilt; unreadable rows of other tables are skipped.

So one damaged row does not fail the read of all others. Unreadable values of a job's row are copied to the table
`quarantine`, and the row is rebuilt from what is readable: its columns, and the members of the JSON that are complete.
The rebuilt row is marked as unreadable; the engine decides what happens to the job. Decision 0015.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from json import JSONDecoder
from sqlite3 import Connection
from typing import Any, Protocol, TypeVar

from msgspec import ValidationError, convert
from msgspec.json import decode as decode_json
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.access.accounts import Owner
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.enums import FINISHED, Status
from batchq.domain.group_terms import GroupTerms
from batchq.domain.ids import DefinitionRef, JobId, QueueName
from batchq.domain.job import ArrayChild, ArrayState, Job, JobSpec
from batchq.domain.lifecycle.status import with_history
from batchq.domain.task import one_container
from batchq.domain.times import EPOCH
from batchq.errors import Unreadable
from batchq.store import rows
from batchq.store.statements import load_statements

log = logging.getLogger(__name__)

SQL = load_statements("quarantine.sql")

MAX_REPAIRS = 100  # for one read; each repairs all unreadable rows of one statement

#: The members of a job's JSON that are kept if they are readable; the others come from columns, or are defaults.
RECOVERABLE = frozenset({"attempt", "attempts", "stop", "cancelled", "started_at", "stopped_at", "tags"})

_MEMBER_NAME = re.compile(r'\s*[{,]\s*"(\w+)"\s*:\s*')
_VALUE_END = re.compile(r"\s*[,}]")

Columns = dict[str, Any]
T = TypeVar("T")
Work = Callable[[Connection], T]


class RunsTransaction(Protocol):
    """A method of Database that runs a transaction: `read`, `browse` or `write`."""

    def __call__(self, work: Work[T]) -> Awaitable[T]: ...


async def with_repair(read: RunsTransaction, work: Work[T], *, write: RunsTransaction) -> T:
    """The result of a read; if it raises Unreadable, these jobs are quarantined and the read is repeated."""
    for _ in range(MAX_REPAIRS):
        try:
            return await read(work)
        except Unreadable as unreadable:
            for job in await write(partial(quarantine_jobs, sequences=unreadable.sequences)):
                log.warning("job %s: record unreadable and quarantined; rebuilt as: %s", job.id, with_history(job))
    return await read(work)


def skip_unreadable(found: Iterable[tuple[Any, ...]], make: Callable[..., T]) -> Iterator[T]:
    """The values of the readable rows; unreadable rows are logged and skipped."""
    for row in found:
        try:
            yield make(*row)
        except rows.DECODE_ERRORS:
            log.warning("unreadable row skipped: %s", row)


def quarantine_jobs(connection: Connection, sequences: Iterable[int]) -> list[Job]:
    """Quarantine the unreadable values of these jobs and rebuild their rows. Returns the rebuilt jobs."""
    damaged = [columns for sequence in sequences if (columns := _columns(connection, sequence)) is not None]
    rebuilt: list[Job] = []
    for columns in damaged:
        array = None if columns["parent_sequence"] is None else _columns(connection, columns["parent_sequence"])
        spec = _spec(connection, array or columns)
        job = _without_unreadable_requirements(connection, columns, _job(connection, columns, array, spec))
        _rewrite_unreadable_runs(connection, columns, job)
        connection.execute(SQL["update_state"], rows.state_row(job, version=job.version))
        rebuilt.append(job)
    return rebuilt


def unfinished_jobs(connection: Connection) -> tuple[JobId, ...]:
    """The unfinished jobs with quarantined values."""
    return tuple(JobId(job_id) for (job_id,) in connection.execute(SQL["unfinished_quarantined_jobs"]))


def quarantined_count(connection: Connection) -> int:
    (number,) = connection.execute(SQL["count"]).fetchone()
    return int(number)


def _columns(connection: Connection, sequence: int) -> Columns | None:
    found = connection.execute(SQL["columns"], {"sequence": sequence})
    row = found.fetchone()
    return None if row is None else {name: value for (name, *_), value in zip(found.description, row, strict=True)}


def _insert(connection: Connection, job: Columns, column: str) -> None:
    connection.execute(
        SQL["insert_quarantine"], {"sequence": job["sequence"], "column_name": column, "raw": job[column]}
    )


def _spec(connection: Connection, job: Columns) -> JobSpec:
    """The specification of a job, rebuilt if it is unreadable. Children share the one of their array."""
    try:
        return rows.spec(_text(job["spec"]))
    except rows.DECODE_ERRORS:
        _insert(connection, job, "spec")
    spec = _rebuilt_spec(job, _group(connection, job))
    connection.execute(SQL["update_spec"], {"sequence": job["sequence"], "spec": rows.as_json(spec)})
    return spec


def _group(connection: Connection, job: Columns) -> GroupTerms | None:
    """The group of a job, which counts the job until it has ended; None: the job is in no readable group."""
    found = connection.execute(SQL["group"], {"id": job["group_id"]})
    return next((group.terms for group in skip_unreadable(found, rows.GROUP.decode)), None)


def _rebuilt_spec(job: Columns, group: GroupTerms | None) -> JobSpec:
    size = Resources(millicpus=job["millicpus"], memory_mib=job["memory_mib"], gpus=job["gpus"])
    return JobSpec(
        name=job["name"],
        queue=QueueName(job["queue"]),
        definition=DefinitionRef(name=job["definition"], revision=job["revision"]),
        nodes=one_container(ContainerSpec(image="", resources=size, command=())),
        array_size=job["array_size"] or None,
        scheduling_priority=-job["rank"] or None,
        share_identifier=job["share_identifier"],
        owner=Owner(user=job["owner"], account=job["account"]),
        group=group,
        invalid=status_reasons.UNREADABLE,
        stop_grace=timedelta(),
    )


def _job(connection: Connection, job: Columns, array: Columns | None, spec: JobSpec) -> Job:
    try:
        members = decode_json(_text(job["state"]))
        return rows.checked(
            job["sequence"], job["id"], job["version"], job["status"], rows.job_of_members(members, spec)
        )
    except rows.DECODE_ERRORS:
        _insert(connection, job, "state")
    return _rebuilt_job(job, array, spec, _array_state(connection, job))


def _rebuilt_job(job: Columns, array: Columns | None, spec: JobSpec, array_state: ArrayState | None) -> Job:
    """The job from its columns, which take precedence, and from all members of the JSON that are readable."""
    status = _status(job["status"], array_state)
    certain = {
        "id": job["id"],
        "sequence": job["sequence"],
        "version": job["version"],
        "created_at": EPOCH + timedelta(milliseconds=job["created_at"]),
        "status": status,
        "status_reason": status_reasons.UNREADABLE,
        "child": array and ArrayChild(parent=JobId(array["id"]), index=job["sequence"] - array["sequence"] - 1),
        "array_state": array_state,
        "spec": spec,
    }
    members = _complete_members(job["state"])
    recovered = {
        name: members[name] for name in RECOVERABLE & members.keys() if name != "attempt" or status not in FINISHED
    }
    for name in sorted(recovered):
        if not _is_readable(certain | {name: recovered[name]}):
            del recovered[name]
    return convert(recovered | certain, Job)


def _status(column: str, array_state: ArrayState | None) -> Status:
    """The status from its column: an unfinished array with children is PENDING, an invalid value SUBMITTED."""
    status = Status(column) if column in set(Status) else Status.SUBMITTED
    return status if array_state is None or status in FINISHED else Status.PENDING


def _complete_members(state: bytes | None) -> dict[str, Any]:
    """The members of the JSON object that precede the first damage."""
    text, decoder = _valid_utf8(state or b""), JSONDecoder()
    members: dict[str, Any] = {}
    end = 0
    while (name := _MEMBER_NAME.match(text, end)) is not None:
        try:
            value, end = decoder.raw_decode(text, name.end())
        except (ValueError, RecursionError):
            break
        if not _VALUE_END.match(text, end):  # a number may be cut off
            break
        members[name[1]] = value
    return members


def _valid_utf8(raw: bytes) -> str:
    """The text up to the first invalid byte."""
    try:
        return raw.decode()
    except UnicodeDecodeError as why:
        return raw[: why.start].decode()


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
    bounds = {"first": job["sequence"] + 1, "last": job["sequence"] + job["array_size"]}
    statuses = [Status(status) for (status,) in connection.execute(SQL["statuses_of_children"], bounds)]
    if not statuses:
        return None
    return ArrayState(
        spawned=len(statuses), counts=tuple((status, statuses.count(status)) for status in Status if status in statuses)
    )


def _without_unreadable_requirements(connection: Connection, job: Columns, state: Job) -> Job:
    """Clear the column `consumable_requirements`, which the placement pass reads, if it is unreadable."""
    try:
        rows.needs(None if job["consumable_requirements"] is None else _text(job["consumable_requirements"]))
    except rows.DECODE_ERRORS:
        _insert(connection, job, "consumable_requirements")
        connection.execute(SQL["clear_consumable_requirements"], {"sequence": job["sequence"]})
        return state if state.status in FINISHED else replace(state, status_reason=status_reasons.UNREADABLE)
    return state


def _rewrite_unreadable_runs(connection: Connection, job: Columns, state: Job) -> None:
    """Write the column `node_runs`, which the placement pass reads, again if it is unreadable."""
    try:
        rows.node_runs(None if job["node_runs"] is None else _text(job["node_runs"]))
    except rows.DECODE_ERRORS:
        _insert(connection, job, "node_runs")
        connection.execute(
            SQL["write_node_runs"], {"sequence": job["sequence"], "node_runs": rows.runs_column(state.spec)}
        )


def _text(raw: bytes | None) -> str:
    return str(raw or b"", "utf-8")
