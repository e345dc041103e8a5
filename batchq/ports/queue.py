"""The port by which the scheduler reads RUNNABLE jobs from the store."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import AccountName, Visibility
from batchq.domain.explanation.facts import QueuePosition
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.scheduling.capacity import Candidate

Rank = tuple[int, int]  # (priority, Job.sequence)

Names = frozenset[AccountName]

NONE: Names = frozenset()


class WaitingJob(Struct, frozen=True, kw_only=True):
    """A RUNNABLE job whose position in its queue is requested."""

    job_id: JobId
    queue: QueueName
    #: `Job.sequence`.
    sequence: int
    #: The share identifier; None in a queue without a fair-share policy.
    share: str | None = None
    #: AWS's schedulingPriority, which decides within a share.
    priority: int = 0


class PlacedJobs(Struct, frozen=True, kw_only=True):
    """Jobs, and the places of those that wait to be placed."""

    jobs: Mapping[JobId, Job]
    #: As of `QueueReader.places`.
    places: Mapping[JobId, QueuePosition]


def waiting_job(job: Job) -> WaitingJob:
    """The job as `QueueReader.places` reads its place."""
    return WaitingJob(
        job_id=job.id,
        queue=job.spec.queue,
        sequence=job.sequence,
        share=job.spec.share_identifier,
        priority=job.spec.scheduling_priority or 0,
    )


class QueueReader(Protocol):
    """Reads of the RUNNABLE jobs of queues. Every method may raise StoreFailed.

    An unschedulable job, which no compute environment of its queue can ever hold, is not included.
    """

    async def runnable(
        self, queue: QueueName, limit: int, after: int = -1, *, excluding: Names = NONE
    ) -> tuple[Candidate, ...]:
        """The first `limit` RUNNABLE jobs of a queue above `after`, by `sequence`.

        Jobs of the accounts in `excluding` are skipped without being read.
        """

    async def runnable_in_share(
        self, queue: QueueName, share: str, limit: int, after: Rank | None = None, *, excluding: Names = NONE
    ) -> tuple[Candidate, ...]:
        """The first `limit` RUNNABLE jobs of a share after `after`, by priority, highest first, then by `sequence`.

        `excluding`: as in `runnable`.
        """

    async def waiting_shares(self, queue: QueueName) -> tuple[str, ...]:
        """The shares of a queue that have RUNNABLE jobs."""


class QueueStore(QueueReader, Protocol):
    """Reads of all jobs that wait: those of `QueueReader`, unschedulable jobs, and counts for quotas."""

    async def unschedulable(self, limit: int, after: int = -1) -> tuple[Job, ...]:
        """The first `limit` unschedulable RUNNABLE jobs above `after`, by `sequence`."""

    async def placed_jobs(self, ids: Sequence[JobId], *, visibility: Visibility | None) -> PlacedJobs:
        """The visible jobs with these ids and their places, read in one transaction."""

    async def places(self, jobs: Sequence[WaitingJob]) -> Mapping[JobId, QueuePosition]:
        """The place of each job in its queue or, in a fair-share queue, in its share.

        Jobs for which too much would have to be read are omitted. Unschedulable jobs do not count.
        """

    async def queued(self) -> Mapping[AccountName, int]:
        """The number of queued jobs of each account, as `quotas.queued` counts. Accounts without any may be omitted."""
