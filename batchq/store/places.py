"""Counts the jobs before waiting jobs, in bounded reads of the scheduler's indexes."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from batchq.domain.explanation.facts import MAX_PLACE, Place
from batchq.domain.ids import JobId, QueueName
from batchq.ports.queue import WaitingJob
from batchq.store import rows
from batchq.store.statements import load_statements

SQL = load_statements("job_reads.sql")

MAX_ROWS = 50_000  # index rows that one call reads


class _Counter:
    """Counts jobs until the rows of the call are used up."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._left = MAX_ROWS

    def count(self, statement: str, parameters: Mapping[str, object], limit: int) -> tuple[int, int] | None:
        """The number of jobs, `limit` at most, and their vCPUs in thousandths; None if no rows are left."""
        if self._left < limit:
            return None
        found = self._connection.execute(SQL[statement], {**parameters, "limit": limit}).fetchone()
        self._left -= found[0]
        return int(found[0]), int(found[1])


def places(connection: sqlite3.Connection, jobs: Sequence[WaitingJob]) -> Mapping[JobId, Place]:
    """The place of each job. Jobs of one queue are counted in one pass; when MAX_ROWS are read the rest is omitted."""
    counter, found = _Counter(connection), dict[JobId, Place]()
    in_queues = sorted((it for it in jobs if it.share is None), key=lambda it: (it.queue, it.order))
    for queue, line in groupby(in_queues, key=lambda it: it.queue):
        found |= _in_queue(counter, queue, line)
    for job in jobs:
        if job.share is not None and (place := _in_share(counter, job)) is not None:
            found[job.job_id] = place
    return found


def _in_queue(counter: _Counter, queue: QueueName, jobs: Iterable[WaitingJob]) -> dict[JobId, Place]:
    found: dict[JobId, Place] = {}
    ahead = millicpus = 0
    after = -1
    for job in jobs:
        parameters = {"queue": rows.text(queue), "after": after, "before": rows.integer(job.order)}
        more = counter.count("count_in_queue", parameters, MAX_PLACE - ahead)
        if more is None:
            break
        ahead, millicpus, after = ahead + more[0], millicpus + more[1], job.order - 1
        found[job.job_id] = Place(ahead=ahead, millicpus=millicpus)
    return found


def _in_share(counter: _Counter, job: WaitingJob) -> Place | None:
    parameters = {
        "queue": rows.text(job.queue),
        "share_identifier": rows.text(job.share or ""),
        "rank": -rows.integer(job.priority),
        "before": rows.integer(job.order),
    }
    found = counter.count("count_in_share", parameters, MAX_PLACE)
    return None if found is None else Place(ahead=found[0], millicpus=found[1])
