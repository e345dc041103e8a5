"""Conversion between rows and domain values. Pure.

Values that statements search by have columns; all others are JSON, in which members with their default are omitted.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

from msgspec import UNSET, convert, to_builtins
from msgspec.json import Decoder, Encoder
from msgspec.json import decode as decode_json
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Owner, UserName
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    JobDefinition,
    JobQueue,
    SchedulingPolicy,
)
from batchq.domain.container import Resources
from batchq.domain.groups import Group
from batchq.domain.ids import ContainerEngineName, JobId, QueueName, SubmissionKey
from batchq.domain.job import ConsumableRequirement, Job, JobSpec
from batchq.domain.lifecycle.arrays import at_work
from batchq.domain.scheduling.capacity import Candidate
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.stop_values import StopOrder
from batchq.domain.task import NodeRun
from batchq.domain.times import MICROSECOND, from_microseconds, microseconds, milliseconds
from batchq.ports.catalog import CatalogResource
from batchq.ports.clock import ClockAnchor
from batchq.ports.history import HistoryEntry
from batchq.ports.jobs import Restoration, SurveyRecord
from batchq.ports.logs import LogStream
from batchq.store.statements import Row

HELD = 2  # the column `passed_over` of a held job; 1 for an unschedulable one, else 0

JobRow = tuple[int, str, int, str, str, str]
CandidateRow = tuple[str, int, int, int, int, str | None, str | None, str | None, int | None, str | None, int, str]

#: By kind.
RESOURCES: Mapping[type[CatalogResource], Decoder[Any]] = {
    kind: Decoder(kind) for kind in (ComputeEnvironment, JobQueue, SchedulingPolicy, ConsumableResource)
}
DEFINITION = Decoder(JobDefinition)
CONSUMABLE_UPDATE = Decoder(ConsumableUpdate)
RESTORATION = Decoder(Restoration)
SURVEY_RECORD = Decoder(SurveyRecord)
CLOCK_ANCHOR = Decoder(ClockAnchor)
_SPEC = Decoder(JobSpec)
_STOP_ORDERS = Decoder(tuple[StopOrder, ...])
_NEEDS = Decoder(tuple[ConsumableRequirement, ...])
_NODE_RUNS = Decoder(tuple[NodeRun, ...])
_SHARE_USE = Decoder(ShareUse)
GROUP = Decoder(Group)
_ENCODER = Encoder()

#: The errors that reading a damaged row raises; msgspec's errors are ValueErrors.
DECODE_ERRORS = (ValueError, TypeError, RecursionError)

WILDCARD = "*"  # the last character of a filter value that is a prefix
# Sorts after any text that follows a prefix: this code point is a Unicode noncharacter, which no name contains.
AFTER_ANY_SUFFIX = "\U0010ffff"
MAX_INTEGER = 2**63 - 1
_SPEC_CACHE_SIZE = 256


def new_job_row(job: Job) -> Row:
    """The row of a new job with all columns."""
    spec = job.spec
    resources = spec.resources
    columns: dict[str, str | int | None] = {
        "queue": spec.queue,
        "name": spec.name.lower(),
        "definition": spec.definition.name,
        "revision": spec.definition.revision,
        "owner": spec.owner.user,
        "account": spec.owner.account,
        "share_identifier": spec.share_identifier,
        "created_at": milliseconds(job.created_at),
        "millicpus": resources.millicpus,
        "memory_mib": resources.memory_mib,
        "gpus": resources.gpus,
        "node_runs": runs_column(spec),
        "engines": " ".join(spec.engines) if spec.engines else None,
        "parent_sequence": None if job.child is None else job.sequence - 1 - job.child.index,
        "array_size": spec.array_size or 0 if job.child is None else 0,
        "consumable_requirements": as_json(spec.needs) if spec.needs else None,
        "timeout": None if spec.timeout is None else spec.timeout // MICROSECOND,
        "rank": -(spec.scheduling_priority or 0),
        "rerun_of": spec.rerun_of if job.child is None else None,
        "group_id": None if spec.group is None else spec.group.id,
    }
    return state_row(job, version=job.version) | storable(columns)


def owner(user: str, account: str) -> Owner:
    return Owner(user=UserName(user), account=AccountName(account))


def spec_row(job: Job) -> Row:
    """The row of a job's specification. The children of an array share the row of their array."""
    return {"sequence": job.sequence, "spec": as_json(job.spec)}


def need_rows(job: Job) -> list[Row]:
    return [{"resource": text(need.resource), "sequence": job.sequence} for need in job.spec.needs]


def state_row(job: Job, *, version: int) -> dict[str, str | int | None]:
    """The columns that an update changes. `state` has the new `version`; the member `version` is the expected one."""
    return {
        "sequence": job.sequence,
        "id": text(job.id),
        "version": job.version,
        "status": str(job.status),
        # Keeps placement from a queued job.
        "passed_over": HELD if job.held else int(job.unschedulable),
        "has_array_work": int(job.array_state is not None and at_work(job)),
        # Without `spec`: an UNSET member is not encoded.
        "state": as_json(replace(job, spec=UNSET, version=version)),
    }


def job(state: str, spec_json: str) -> Job:
    return job_of_members(decode_json(state), spec(spec_json))


def job_of_members(state: dict[str, Any], spec: JobSpec) -> Job:
    """The job from the decoded members of its JSON. Raises one of DECODE_ERRORS."""
    return convert(state | {"spec": spec}, Job)


def job_of_row(row: JobRow) -> Job:
    """The job of a row. Raises one of DECODE_ERRORS."""
    sequence, job_id, version, status, state, spec_json = row
    return checked(sequence, job_id, version, status, job(state, spec_json))


def checked(sequence: int, job_id: str, version: int, status: str, read: Job) -> Job:
    """The job, if its JSON agrees with the columns; else no UPDATE would match the row. Raises ValueError."""
    if (read.sequence, read.id, read.version, read.status) != (sequence, job_id, version, status):
        raise ValueError(f"the JSON of job {job_id} disagrees with its columns")
    return read


@lru_cache(maxsize=_SPEC_CACHE_SIZE)
def spec(json_text: str) -> JobSpec:
    """The decoded specification, cached: children of an array share one, and decoding dominates the cost of a row."""
    return _SPEC.decode(json_text)


def candidate_of_row(row: CandidateRow) -> Candidate:
    job_id, sequence, millicpus, memory_mib, gpus, runs, engines, requirements, longest, share, rank, account = row
    return Candidate(
        job_id=JobId(job_id),
        sequence=sequence,
        resources=Resources(millicpus=millicpus, memory_mib=memory_mib, gpus=gpus),
        nodes=node_runs(runs),
        engines=tuple(map(ContainerEngineName, (engines or "").split())),
        requirements=needs(requirements),
        timeout=None if longest is None else timedelta(microseconds=longest),
        share=share,
        priority=-rank,
        account=AccountName(account),
    )


def needs(json_text: str | None) -> tuple[ConsumableRequirement, ...]:
    return () if json_text is None else _NEEDS.decode(json_text)


def node_runs(json_text: str | None) -> tuple[NodeRun, ...]:
    return () if json_text is None else _NODE_RUNS.decode(json_text)


def runs_column(spec: JobSpec) -> str | None:
    """The column `node_runs` of a job."""
    return as_json(spec.nodes.runs) if spec.nodes.count > 1 else None


def stop_orders(json_text: str | None) -> tuple[StopOrder, ...]:
    """The stop orders of a job; empty if they are damaged."""
    try:
        return () if json_text is None else _STOP_ORDERS.decode(json_text)
    except DECODE_ERRORS:
        return ()


def share_usage_row(key: ShareKey, use: ShareUse) -> Row:
    return {"queue": text(key.queue), "share_identifier": text(key.share), "value": as_json(use)}


def share_usage(queue: str, name: str, value: str) -> tuple[ShareKey, ShareUse]:
    return ShareKey(QueueName(queue), name), _SHARE_USE.decode(value)


def moment_value(moment: HistoryEntry) -> str:
    """The history entry as JSON without `job_id`, which the row's `sequence` implies."""
    return as_json(replace(moment, job_id=UNSET))


def history_entry_of_row(job_id: JobId, value: str) -> HistoryEntry:
    return convert(decode_json(value) | {"job_id": job_id}, HistoryEntry)


def submission_key_row(key: SubmissionKey) -> dict[str, str | int | None]:
    return {
        "principal": text(key.principal),
        "invocation_id": text(key.invocation_id),
        "body_sha256": text(key.body_sha256),
    }


def stream_row(stream: LogStream) -> Row:
    columns: dict[str, str | int | None] = {
        "name": stream.name,
        "created_at": microseconds(stream.created_at),
        "owner": stream.owner.user,
        "account": stream.owner.account,
    }
    return storable(columns) | {"value": as_json(replace(stream, name=UNSET))}


def log_stream_of_row(name: str, value: str) -> LogStream:
    return convert(decode_json(value) | {"name": name}, LogStream)


def group_row(group: Group) -> Row:
    return {
        "id": text(group.terms.id),
        "sequence": group.sequence,
        "name": text(group.terms.name.lower()),
        "owner": text(group.owner.user),
        "account": text(group.owner.account),
        "ended_at": None if group.ended_at is None else microseconds(group.ended_at),
        "value": as_json(group),
    }


def resource_row(resource: CatalogResource) -> Row:
    return {"kind": type(resource).__name__, "name": text(resource.name), "value": as_json(resource)}


def definition_row(definition: JobDefinition) -> Row:
    return {
        "name": text(definition.ref.name),
        "revision": definition.ref.revision,
        "status": definition.status.value,
        "owner": text(definition.owner.user),
        "account": text(definition.owner.account),
        "value": as_json(definition),
    }


def consumable_update_row(resource: str, update: ConsumableUpdate) -> Row:
    return {
        "resource": text(resource),
        "token": text(update.token),
        "at": microseconds(update.at),
        "value": as_json(update),
    }


def consumable_update_of_row(at: int, value: str) -> ConsumableUpdate:
    """The update, with the time of its column, which is shifted when the machine's clock was set. Decision 0035."""
    return replace(CONSUMABLE_UPDATE.decode(value), at=from_microseconds(at))


def as_json(value: object) -> str:
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 encoding, and must not fail a unit of work
        return text(json.dumps(to_builtins(value), ensure_ascii=False, separators=(",", ":")))


def text(value: str) -> str:
    """The text with lone surrogates replaced by `?`. Valid names contain none, so searches are not affected."""
    return str(value) if value.isascii() else value.encode(errors="replace").decode()


def json_texts(values: Iterable[str]) -> str:
    """A set as one JSON text: SQLite limits the number of variables of a statement."""
    return json.dumps(sorted(map(text, values)))


def storable(columns: dict[str, str | int | None]) -> dict[str, str | int | None]:
    """The columns, changed in place to what SQLite can store: as `text` and `integer` return them."""
    for column, value in columns.items():
        if isinstance(value, int):
            if not -MAX_INTEGER <= value <= MAX_INTEGER:
                columns[column] = integer(value)
        elif value is not None and not value.isascii():
            columns[column] = text(value)
    return columns


def integer(number: int) -> int:
    """The number, limited to the range of a column. The JSON in the same row has the exact value."""
    if -MAX_INTEGER <= number <= MAX_INTEGER:
        return number
    return MAX_INTEGER if number > 0 else -MAX_INTEGER


def parse_integer(text: str) -> int | None:
    """The non-negative integer in the text, at most the greatest that SQLite stores; None for any other text."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_INTEGER)):
        return None
    return min(int(text), MAX_INTEGER)
