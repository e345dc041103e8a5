"""Groups of jobs in responses."""

from msgspec import Struct

from batchq.domain.enums import Status


class GroupRow(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A group with the counts of its jobs. Times are in milliseconds since 1970."""

    group_id: str
    group_name: str
    #: The owner of its first job.
    user: str
    #: The account of the owner.
    account: str
    created_at: int
    #: When its last job ended; absent while a job is unfinished.
    ended_at: int | None = None
    #: How many jobs it has, or will have by the tag `batchq:group-size`.
    size: int
    #: The tag `batchq:group-size` of its first job; absent without it.
    declared_size: int | None = None
    #: How many jobs were submitted. An array counts as its children.
    submitted: int
    #: How many jobs have each status.
    status_summary: dict[Status, int]
    #: How many children its arrays have still to create.
    not_created: int = 0
    #: How many of the FAILED jobs were cancelled or terminated.
    stopped: int = 0
    max_running: int | None = None
    max_failed: int | None = None
    #: The sum of the run times of the jobs that SUCCEEDED.
    run_seconds: float = 0
    #: How many jobs have ended whose latest attempt's CPU time was measured.
    measured_jobs: int = 0
    #: The sum of these CPU times; absent if `measuredJobs` is 0.
    cpu_seconds: float | None = None
    #: The most memory of the latest attempt of any job, also of one that another job replaced; absent if not measured.
    peak_memory_bytes: int | None = None


class GroupsResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A page of groups."""

    groups: tuple[GroupRow, ...]
    #: For the next page; absent on the last one.
    next_token: str | None = None


class GroupEndResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A group ended: all its jobs have."""

    group_id: str
    group_name: str
    succeeded: int = 0
    #: Jobs that failed by themselves.
    failed: int = 0
    #: Jobs that were cancelled or terminated.
    stopped: int = 0

    @property
    def text(self) -> str:
        """`group fit ended: 197 succeeded, 3 failed, 0 stopped`."""
        counts = f"{self.succeeded} succeeded, {self.failed} failed, {self.stopped} stopped"
        return f"group {self.group_name} ended: {counts}"
