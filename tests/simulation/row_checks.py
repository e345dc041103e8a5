"""Checks that the rows that a commit leaves, also those of tables beside `jobs`, follow from the jobs alone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from sqlite3 import Connection

from batchq.domain.enums import FINISHED, QUEUED, Status
from batchq.domain.ids import JobId, Tag, stream_name
from batchq.domain.job import Job
from batchq.domain.job_counts import group_of
from batchq.domain.lifecycle.arrays import is_parent
from batchq.domain.lifecycle.stopping import failed_by_order
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.ports.jobs import Changes
from batchq.store import job_reads, rows
from tests.simulation.run_log import Checks, RunLog

EVERY = 7  # commits between two comparisons of all rows


class RowChecks(Checks):
    def __init__(self, invariants, *, run_log: RunLog) -> None:
        """`invariants`: those that this object is a part of; they record what was committed."""
        super().__init__(jobs=invariants.jobs, run_log=run_log)
        self._invariants = invariants
        self._commits = 0

    def written(self, connection: Connection, changes: Changes) -> None:
        """Called after each commit."""
        self._commits += 1
        self._check_jobs(connection, [job.id for job in (*changes.inserted, *changes.updated)])
        if self._commits % EVERY == 0:
            self._check_tables(connection)

    def _check_tables(self, connection: Connection) -> None:
        """Compare the tables beside `jobs`, and the queries that a start reads, with the jobs."""
        unfinished = [job for job in self.jobs.values() if job.status not in FINISHED]
        stored = connection.execute("SELECT dependency_id, sequence FROM job_dependencies")
        expected = {(on, job.sequence) for job in unfinished if waits(job) for on in waits_for(job)}
        self._check_equal("job_dependencies", set(stored), expected)
        counts = Counter(group_of(job, job.status) for job in unfinished)
        self._check_equal("the counts of unfinished jobs", job_reads.unfinished_counts(connection), counts)
        self._check_equal("the queued jobs", +Counter(job_reads.queued(connection)), _queued(unfinished))
        ended = {
            on
            for job in unfinished
            if waits(job)
            for on in waits_for(job)
            if on in self.jobs and (self.jobs[on].status in FINISHED or is_parent(self.jobs[on]))
        }
        if not self._invariants.deletes:
            self._check_equal("ended dependencies", set(job_reads.ended_dependencies(connection)), ended)
            streams = {name for (name,) in connection.execute("SELECT name FROM log_streams")}
            self._check_equal("log_streams", streams, {name for job in self.jobs.values() for name in _streams(job)})
        if not self._invariants.groups.is_inexact:
            self._check_groups(connection)

    def _check_jobs(self, connection: Connection, ids: Iterable[JobId]) -> None:
        """Each column of a changed job is what an insertion of the whole job would write."""
        for job_id in ids:
            found = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,))
            names = [column[0] for column in found.description]
            row = dict(zip(names, found.fetchone(), strict=True))
            ended = row.pop("finished_at") is not None
            self._check_equal(f"the row of {self.run_log.name_of(job_id)}", row, rows.new_job_row(self.jobs[job_id]))
            self._check_equal("finished_at", ended, self.jobs[job_id].status in FINISHED)

    def _check_groups(self, connection: Connection) -> None:
        stored = {
            group_id: (ended_at is not None, rows.GROUP.decode(value))
            for group_id, ended_at, value in connection.execute("SELECT id, ended_at, value FROM job_groups")
        }
        groups = self._invariants.groups.groups
        expected = {group_id: (group.ended_at is not None, group) for group_id, group in groups.items()}
        self._check_equal("job_groups", stored, expected)

    def _check_equal(self, what: str, stored: object, expected: object) -> None:
        if stored != expected:
            self.run_log.fail("I1 rows follow from the jobs", f"{what}: {stored}, and not {expected}")


def group_sums(members: Iterable[Job]) -> tuple[Mapping[Status, int], int, int]:
    """The counts of a group by status, its stopped jobs, and the children that its arrays have still to create."""
    counts: Counter[Status] = Counter()
    stopped = uncreated = 0
    for job in members:
        missing = 0
        if is_parent(job):
            missing = job.spec.array_size - (job.array_state.spawned if job.array_state else 0)
        if is_parent(job) and job.status not in FINISHED:
            uncreated += missing
        elif is_parent(job):
            counts[Status.FAILED] += missing
            stopped += missing * failed_by_order(job)
        else:
            counts[job.status] += 1
            stopped += failed_by_order(job)
    return dict(+counts), stopped, uncreated


def _queued(jobs: Iterable[Job]) -> Counter[str]:
    """The queued jobs by account; an array counts as the children that it has not created."""
    counts: Counter[str] = Counter()
    for job in jobs:
        if job.status in QUEUED:
            spawned = 0 if job.array_state is None else job.array_state.spawned
            counts[job.spec.owner.account] += job.spec.array_size - spawned if is_parent(job) else 1
    return +counts


def _streams(job: Job) -> Iterable[str]:
    """The log streams of the containers of a job that ran."""
    for attempt in job.all_attempts:
        for container in attempt.containers:
            if container.started_at is not None:
                tag = Tag(job_id=job.id, attempt=attempt.number, container_key=container.key)
                yield stream_name(job.spec.definition.name, tag)
