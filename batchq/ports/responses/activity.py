"""The activity of queues over time."""

from msgspec import Struct, field


class WaitResponse(Struct, frozen=True, kw_only=True):
    """How long attempts waited between RUNNABLE and STARTING, in seconds."""

    p50: float
    p95: float


class ActivityLimits(Struct, frozen=True, kw_only=True, rename="camel"):
    """What jobs may request."""

    vcpus: float
    memory_mib: int = field(name="memoryMiB")
    gpus: int


class ActivityBucketResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One bucket of time. Averages are absent if the server ended before its first sample of the bucket."""

    #: The beginning, in milliseconds since 1970.
    at: int
    #: The average number of jobs that were STARTING or RUNNING.
    running: float | None = None
    #: The average number of jobs that were SUBMITTED, PENDING or RUNNABLE.
    waiting: float | None = None
    #: The average of what running jobs requested.
    vcpus: float | None = None
    memory_mib: float | None = field(name="memoryMiB", default=None)
    gpus: float | None = None
    #: The average number of running jobs whose use was measured. The two members below are the use of these jobs. All
    #: three are absent while no job was measured.
    measured_jobs: float | None = None
    used_vcpus: float | None = None
    used_memory_mib: float | None = field(name="usedMemoryMiB", default=None)
    #: What running jobs with prices cost in an hour, on average; absent without prices, and without such jobs.
    cost_per_hour: float | None = None
    #: Absent while the container engine did not answer.
    limits: ActivityLimits | None = None
    #: Jobs that ended in the bucket.
    succeeded: int
    #: Jobs that failed by themselves.
    failed: int
    #: Jobs that were cancelled or terminated.
    stopped: int
    #: Of the attempts that began in the bucket; absent without one.
    wait: WaitResponse | None = None


class ActivityResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The activity of the jobs that the caller sees. Children of arrays count, and arrays do not."""

    #: The time of the server, and the beginning of the first bucket, in milliseconds since 1970.
    at: int
    first: int
    #: The width of a bucket.
    bucket_seconds: int
    #: By time. Buckets in which the server did not run are absent.
    buckets: tuple[ActivityBucketResponse, ...]
    #: Of `costPerHour`; absent if the server has no prices.
    currency: str | None = None
