"""Reads of the tables of jobs. Each function runs inside one transaction, in the connection's thread.

Functions named as methods of JobStore and its bases are documented there.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from sqlite3 import Connection
from typing import Any, TypeVar

from batchq.domain import status_reasons
from batchq.domain.access.accounts import AccountName, UserName, Visibility
from batchq.domain.enums import Status, StopKind
from batchq.domain.explanation.facts import MAX_PLACE, QueuePosition
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName, SubmissionKey
from batchq.domain.job import Job
from batchq.domain.job_counts import JobGroup
from batchq.domain.scheduling.capacity import Candidate
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.times import EPOCH, microseconds
from batchq.errors import Unreadable
from batchq.ports.jobs import (
    FailureGroup,
    Failures,
    JobFacts,
    JobFactsQuery,
    OverviewFacts,
    Restoration,
    SurveyRecord,
    WaitingQuery,
)
from batchq.ports.queue import NONE, Names, Rank, WaitingJob
from batchq.store import history, rows
from batchq.store.statements import load_statements

SQL = load_statements("job_reads.sql")

MAX_PLACE_ROWS = 50_000  # index rows that one call of `places` reads
MAX_EXAMINED = 20_000  # failures of all owners that one overview examines
MAX_FAILURES = 1000  # visible failures of one overview, whose rows are read

T = TypeVar("T")


def find_jobs(
    connection: Connection, ids: Sequence[JobId], *, visibility: Visibility | None = None
) -> Mapping[JobId, Job]:
    """The jobs with these ids. Hidden jobs are not loaded, so that timing hardly reveals that they exist."""
    visible = dict.fromkeys(ids)
    if visibility is not None:
        owners = connection.execute(SQL["owners_by_id"], _ids(visible))
        visible = dict.fromkeys(JobId(job_id) for job_id, *owner in owners if visibility.has(rows.owner(*owner)))
    found = {job.id: job for job in decode_jobs(connection.execute(SQL["jobs_by_id"], _ids(visible)))}
    return {job_id: found[job_id] for job_id in visible if job_id in found}


def reruns(connection: Connection, ids: Sequence[JobId]) -> Mapping[JobId, JobId]:
    found = connection.execute(SQL["reruns"], _ids(ids))
    return {JobId(job_id): JobId(newest) for job_id, newest in found if newest is not None}


def newest_of_lines(connection: Connection, ids: Sequence[JobId]) -> Mapping[JobId, JobId]:
    found = connection.execute(SQL["newest_of_lines"], _ids(ids))
    return {JobId(job_id): JobId(newest) for job_id, newest, _ in found}


def jobs_with_sequences(connection: Connection, sequences: Sequence[int]) -> tuple[Job, ...]:
    """These jobs, in the given order."""
    found = {
        job.sequence: job
        for job in decode_jobs(connection.execute(SQL["jobs_by_sequence"], {"sequences": json.dumps(sequences)}))
    }
    return tuple(found[sequence] for sequence in sequences if sequence in found)


def _ids(ids: Iterable[JobId]) -> dict[str, str]:
    return {"ids": rows.json_texts(ids)}


def active(connection: Connection) -> tuple[Job, ...]:
    return decode_jobs(connection.execute(SQL["active_jobs"]))


def runnable_candidates(
    connection: Connection, queue: QueueName, limit: int, after: int = -1, *, excluding: Names = NONE
) -> tuple[Candidate, ...]:
    parameters = {"queue": rows.text(queue), "limit": limit, "after": rows.integer(after)} | _excluding(excluding)
    found = connection.execute(SQL["runnable_jobs_excluding" if excluding else "runnable_jobs"], parameters)
    return decode_rows(found, rows.candidate_of_row, sequence=1)


def runnable_in_share(
    connection: Connection,
    queue: QueueName,
    share: str,
    limit: int,
    after: Rank | None = None,
    *,
    excluding: Names = NONE,
) -> tuple[Candidate, ...]:
    rank, sequence = (-rows.MAX_INTEGER, -1) if after is None else (-rows.integer(after[0]), rows.integer(after[1]))
    parameters = {
        "queue": rows.text(queue),
        "share_identifier": rows.text(share),
        "rank": rank,
        "after": sequence,
        "limit": limit,
    }
    statement = SQL["runnable_jobs_in_share_excluding" if excluding else "runnable_jobs_in_share"]
    return decode_rows(
        connection.execute(statement, parameters | _excluding(excluding)), rows.candidate_of_row, sequence=1
    )


def _excluding(accounts: Names) -> dict[str, str]:
    return {"excluding": rows.json_texts(accounts)} if accounts else {}


def waiting_shares(connection: Connection, queue: QueueName) -> tuple[str, ...]:
    return tuple(
        share for (share,) in connection.execute(SQL["shares_with_runnable_jobs"], {"queue": rows.text(queue)})
    )


def unschedulable(connection: Connection, limit: int, after: int = -1) -> tuple[Job, ...]:
    parameters = {"limit": limit, "after": rows.integer(after)}
    return decode_jobs(connection.execute(SQL["unschedulable_jobs"], parameters))


def dependents(
    connection: Connection, ids: Sequence[JobId], *, after: int = -1, limit: int | None = None
) -> tuple[Job, ...]:
    parameters = {**_ids(ids), "after": after, "limit": -1 if limit is None else limit}
    found = {job.sequence: job for job in decode_jobs(connection.execute(SQL["dependents"], parameters))}
    return tuple(found[sequence] for sequence in sorted(found))


def job_facts(connection: Connection, query: JobFactsQuery) -> JobFacts:
    return JobFacts(
        history=history.of_job(connection, query.job_id),
        reruns=reruns(connection, query.repeated) if query.repeated else {},
        dependents=dependents(connection, [query.job_id], limit=query.dependents) if query.dependents else (),
    )


def ended_dependencies(connection: Connection) -> tuple[JobId, ...]:
    return tuple(JobId(job_id) for (job_id,) in connection.execute(SQL["finished_dependencies"]))


def waiting_for_others(connection: Connection) -> int:
    (count,) = connection.execute(SQL["count_of_dependencies"]).fetchone()
    return int(count)


def arrays_with_work(connection: Connection) -> tuple[Job, ...]:
    return decode_jobs(connection.execute(SQL["arrays_with_work"]))


def children(connection: Connection, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
    sequences = sequences_of_children(connection, parent)
    page = sequences[max(first, 0) : max(first, 0) + limit]
    return decode_jobs(connection.execute(SQL["unfinished_children"], sequence_range(page)))


def sequences_of_children(connection: Connection, parent: JobId) -> range:
    """The sequences that are reserved for the children of an array; empty for any other job."""
    found = connection.execute(SQL["array"], {"id": rows.text(parent)}).fetchone()
    return range(0) if found is None else range(found[0] + 1, found[0] + 1 + found[1])


def sequence_range(sequences: range) -> dict[str, str | int]:
    """The parameters of a statement on a range of sequences."""
    return {"first": sequences.start, "last": sequences.stop - 1}


def submissions(connection: Connection, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
    found = ((key, connection.execute(SQL["submission"], rows.submission_key_row(key)).fetchone()) for key in keys)
    return {key: JobId(row[0]) for key, row in found if row is not None}


def last_sequence(connection: Connection) -> int:
    found = connection.execute(SQL["last_sequence"]).fetchone()
    return -1 if found is None else int(found[0])


def queued(connection: Connection) -> Mapping[AccountName, int]:
    return {AccountName(name): count for name, count in connection.execute(SQL["queued_by_account"])}


def unfinished_counts(connection: Connection) -> Mapping[JobGroup, int]:
    """RUNNABLE jobs are the unfinished ones without those of every other status."""
    counts: Counter[JobGroup] = Counter()
    for queue, account, owner, status, array, number in connection.execute(SQL["unfinished_counts"]):
        runnable = JobGroup(
            queue=QueueName(queue),
            account=AccountName(account),
            user=UserName(owner),
            status=Status.RUNNABLE,
            array=False,
        )
        counts[runnable] += number if status is None else -number
        if status is not None:
            counts[runnable._replace(status=Status(status), array=bool(array))] += number
    return {group: number for group, number in counts.items() if number > 0}


def oldest_runnable(connection: Connection, queues: Iterable[QueueName]) -> Mapping[QueueName, datetime]:
    """Since when the first RUNNABLE job of each queue has been RUNNABLE; queues without one are omitted.

    The first in the order of submission; unschedulable jobs do not count.
    """
    parameters = {"queues": rows.json_texts(queues)}
    sequences = [
        sequence for (sequence,) in connection.execute(SQL["first_runnable_jobs"], parameters) if sequence is not None
    ]
    return {
        job.spec.queue: job.runnable_at
        for job in jobs_with_sequences(connection, sequences)
        if job.runnable_at is not None
    }


def shares(connection: Connection) -> Mapping[ShareKey, ShareUse]:
    return dict(_share_usage(connection, found) for found in connection.execute(SQL["share_usage"]))


def used_up(connection: Connection) -> Mapping[ConsumableName, int]:
    return {ConsumableName(resource): units for resource, units in connection.execute(SQL["consumed_units"])}


def restoration(connection: Connection) -> Restoration:
    row = connection.execute(SQL["restoration"]).fetchone()
    return Restoration() if row is None else rows.RESTORATION.decode(row[0])


def engine_id(connection: Connection) -> str | None:
    row = connection.execute(SQL["engine_id"]).fetchone()
    return None if row is None else str(row[0])


def last_survey(connection: Connection) -> SurveyRecord | None:
    row = connection.execute(SQL["last_survey"]).fetchone()
    return None if row is None else rows.SURVEY_RECORD.decode(row[0])


def decode_jobs(found: Iterable[Any]) -> tuple[Job, ...]:
    """The jobs of these rows. Raises Unreadable."""
    return decode_rows(found, rows.job_of_row, sequence=0)


def decode_rows(found: Iterable[Any], make: Callable[[Any], T], *, sequence: int) -> tuple[T, ...]:
    """The values of all rows. Raises Unreadable with the sequences of all rows that cannot be read.

    `sequence`: the index of the column that has the sequence.
    """
    values, unreadable = [], []
    for row in found:
        try:
            values.append(make(row))
        except rows.DECODE_ERRORS:
            unreadable.append(row[sequence])
    if unreadable:
        raise Unreadable(tuple(unreadable))
    return tuple(values)


def _share_usage(connection: Connection, found: tuple[str, str, str]) -> tuple[ShareKey, ShareUse]:
    """The usage of a share. An unreadable value is recounted from its jobs; past usage is lost then."""
    try:
        return rows.share_usage(*found)
    except rows.DECODE_ERRORS:
        queue, share, _ = found
        active, millicpus = connection.execute(
            SQL["share_recount"], {"queue": queue, "share_identifier": share}
        ).fetchone()
        return ShareKey(QueueName(queue), share), ShareUse(active=active, millicpus=millicpus, as_of=EPOCH)


# ------------------------------------------------------------------------------------------------------- explanations


class _Counter:
    """Counts jobs until the rows of the call are used up."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left = MAX_PLACE_ROWS

    def count(self, statement: str, parameters: Mapping[str, object], limit: int) -> tuple[int, int] | None:
        """The number of jobs, `limit` at most, and their vCPUs in thousandths; None if no rows are left."""
        if self._left < limit:
            return None
        found = self._connection.execute(SQL[statement], {**parameters, "limit": limit}).fetchone()
        self._left -= found[0]
        return int(found[0]), int(found[1])


def places(connection: Connection, jobs: Sequence[WaitingJob]) -> Mapping[JobId, QueuePosition]:
    """The place of each job. Jobs of one queue are counted in one pass. After MAX_PLACE_ROWS the rest is omitted."""
    counter, found = _Counter(connection), dict[JobId, QueuePosition]()
    in_queues = sorted((job for job in jobs if job.share is None), key=lambda job: (job.queue, job.sequence))
    for queue, line in groupby(in_queues, key=lambda queue: queue.queue):
        found |= _in_queue(counter, queue, line)
    for job in jobs:
        if job.share is not None and (place := _in_share(counter, job)) is not None:
            found[job.job_id] = place
    return found


def _in_queue(counter: _Counter, queue: QueueName, jobs: Iterable[WaitingJob]) -> dict[JobId, QueuePosition]:
    found: dict[JobId, QueuePosition] = {}
    ahead = millicpus = 0
    after = -1
    for job in jobs:
        parameters = {"queue": rows.text(queue), "after": after, "before": rows.integer(job.sequence)}
        more = counter.count("count_in_queue", parameters, MAX_PLACE - ahead)
        if more is None:
            break
        ahead, millicpus, after = ahead + more[0], millicpus + more[1], job.sequence - 1
        found[job.job_id] = QueuePosition(ahead=ahead, millicpus=millicpus)
    return found


def _in_share(counter: _Counter, job: WaitingJob) -> QueuePosition | None:
    parameters = {
        "queue": rows.text(job.queue),
        "share_identifier": rows.text(job.share or ""),
        "rank": -rows.integer(job.priority),
        "before": rows.integer(job.sequence),
    }
    found = counter.count("count_in_share", parameters, MAX_PLACE)
    return None if found is None else QueuePosition(ahead=found[0], millicpus=found[1])


# ----------------------------------------------------------------------------------------------------------- overview


def overview_facts(
    connection: Connection, since: datetime, queries: Collection[WaitingQuery], *, visibility: Visibility | None
) -> OverviewFacts:
    return OverviewFacts(
        failures=_failures(connection, since, visibility=visibility),
        oldest_runnable=oldest_visible_runnable(connection, queries) if queries else {},
    )


def _failures(connection: Connection, since: datetime, *, visibility: Visibility | None) -> Failures:
    parameters: dict[str, str | int] = {"since": microseconds(since), "limit": MAX_FAILURES + 1}
    if visibility is None:
        found = connection.execute(SQL["failures"], parameters).fetchall()
        more = len(found) > MAX_FAILURES
    else:
        bounds = {"user": rows.text(visibility.user), "accounts": rows.json_texts(visibility.accounts)}
        parameters |= {**bounds, "examined": MAX_EXAMINED}
        found = connection.execute(SQL["visible_failures"], parameters).fetchall()
        beyond = connection.execute(SQL["failures_beyond"], {"since": parameters["since"], "examined": MAX_EXAMINED})
        more = len(found) > MAX_FAILURES or beyond.fetchone() is not None
    groups: Counter[tuple[str, int, str]] = Counter()
    for name, revision, status_reason, reason, exit_code, order in found[:MAX_FAILURES]:
        if order not in _STOPS:
            groups[name, revision, _reason(status_reason, reason, exit_code)] += 1
    return Failures(
        count=groups.total(),
        more=more,
        groups=tuple(
            FailureGroup(definition=DefinitionRef(name=name, revision=revision), reason=reason, count=count)
            for (name, revision, reason), count in groups.most_common()
        ),
    )


def oldest_visible_runnable(connection: Connection, queries: Collection[WaitingQuery]) -> Mapping[QueueName, datetime]:
    oldest: dict[QueueName, int] = {}
    for query in sorted(queries, key=str):
        statement = "first_of_account" if query.account is not None else "first_of_user"
        if query.account is None and query.user is None:
            statement = "first_of_queue"
        parameters = {"queue": rows.text(query.queue), "owner": rows.text(query.user or ""), "account": query.account}
        (sequence,) = connection.execute(SQL[statement], parameters).fetchone()
        if sequence is not None:
            oldest[query.queue] = min(sequence, oldest.get(query.queue, sequence))
    jobs = jobs_with_sequences(connection, sorted(oldest.values()))
    return {job.spec.queue: job.runnable_at for job in jobs if job.runnable_at is not None}


#: The last stop orders of jobs that did not fail by themselves.
_STOPS = {StopKind.CANCEL.value, StopKind.TERMINATE.value}


def _reason(status_reason: str | None, reason: str | None, exit_code: int | None) -> str:
    """The text by which failures are grouped: without the ids of other jobs."""
    if reason:
        return reason
    if status_reason == status_reasons.EXITED and exit_code is not None:
        return f"Exit code {exit_code}"
    text = status_reason or ""
    return status_reasons.DEPENDENCY_FAILED if text.startswith(status_reasons.DEPENDENCY_FAILED) else text
