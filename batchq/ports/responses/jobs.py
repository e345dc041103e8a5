"""Jobs as rows of a list, their explanations, their history, and jobs after a hold or a forced end."""

from msgspec import Struct, field

from batchq.domain.enums import Status
from batchq.ports.responses.groups import GroupEndResponse
from batchq.ports.responses.stops import HoldChangeResponse, HoldResponse, StopOrderResponse, StopStepResponse


class ExplanationResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Why a job waits, what it does, or why it failed."""

    #: As docs/why.md lists them, one for each reason.
    code: str
    #: One or more sentences with figures. Names that the caller may not see are replaced.
    sentence: str
    #: Since when this is so, in milliseconds since 1970; absent if it is not known.
    since: int | None = None
    #: The figures of the sentence by name, as docs/why.md lists them for each code; times are in milliseconds.
    facts: dict[str, object]


class UseResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an attempt or a container used. A figure that was not measured is absent."""

    #: When the last sample was taken, in milliseconds since 1970: what was used later is not included.
    sampled_at: int
    #: The CPU time of all processes.
    cpu_seconds: float | None = None
    #: The most memory, with page cache. Of several containers the sum.
    peak_memory_bytes: int | None = None
    #: The most memory of all samples, without page cache that was not used recently.
    working_set_bytes: int | None = None
    #: From block devices.
    read_bytes: int | None = None
    #: To block devices.
    written_bytes: int | None = None


class JobRow(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job as a row of a list. Times are in milliseconds since 1970."""

    job_id: str
    job_arn: str
    job_name: str
    #: The name of the job queue.
    job_queue: str
    #: `NAME:REVISION`.
    job_definition: str
    status: Status
    status_reason: str | None = None
    #: The owner.
    user: str
    #: The account of the owner.
    account: str
    share_identifier: str | None = None
    #: AWS's schedulingPriority.
    priority: int | None = None
    created_at: int
    #: When it last became RUNNABLE.
    runnable_at: int | None = None
    #: When its latest attempt began to run.
    started_at: int | None = None
    #: When it ended.
    stopped_at: int | None = None
    #: How many attempts have begun.
    attempt: int
    max_attempts: int
    #: The exit code of the latest attempt.
    exit_code: int | None = None
    #: What the whole job reserves.
    vcpus: float
    memory_mib: int = field(name="memoryMiB")
    #: What the latest attempt used; absent if it was not measured.
    use: UseResponse | None = None
    #: Of an array: the number of its children.
    array_size: int | None = None
    #: Of a child of an array.
    array_index: int | None = None
    #: The array of a child.
    parent_id: str | None = None
    #: Of an array: how many of its children have each status.
    status_summary: dict[Status, int] | None = None
    #: Of an array: how many of its FAILED children were cancelled or terminated.
    stopped_children: int = 0
    #: The id and the name of the job's group.
    group_id: str | None = None
    group_name: str | None = None
    #: AWS's parameters: the values of a job of a sweep.
    parameters: dict[str, str] = {}
    #: The number of nodes of a multi-node parallel job.
    nodes: int | None = None
    #: Since when and why the job is held; absent if it is not.
    hold: HoldResponse | None = None
    #: The latest order to cancel or stop the job.
    stop_order: StopOrderResponse | None = None
    #: Whether a user cancelled or terminated the job, directly or with its array.
    stopped_by_user: bool = False
    #: The newest job that repeats this finished job or, without one, its array; absent without either.
    resubmitted_as: str | None = None
    #: Why it waits, what it does, or why it failed; only if the request asks for explanations.
    why: ExplanationResponse | None = None


class SearchResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One page of jobs."""

    jobs: tuple[JobRow, ...]
    #: For the next page; absent if no further job matches.
    next_token: str | None = None
    #: Milliseconds since 1970: all matching jobs that were created (with `orderBy` ENDED: that ended) after this time
    #: are on this page or an earlier one. Absent if no further job matches.
    searched_back_to: int | None = None
    #: Whether no further job matches.
    complete: bool


class JobExplanationResponse(ExplanationResponse, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The explanation of one job."""

    job_id: str


class HeldJobResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The job after the request."""

    job_id: str
    job_name: str
    status: Status
    status_reason: str | None = None
    #: Why it is held; absent if it is not.
    hold: HoldResponse | None = None
    #: The latest order to cancel or stop the job. Its kind is PAUSE while a running job is being paused.
    stop_order: StopOrderResponse | None = None
    #: Of a request to release or resume the job: whether it was held. Otherwise the request has changed nothing.
    was_held: bool | None = None


class HistoryEntryResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A status that a job entered, or a step of an order to stop it."""

    #: Milliseconds since 1970.
    at: int
    #: The status that the job entered or, with `stopOrder` or `hold`, had at that time.
    status: Status
    #: Why the job has the status; absent if no reason is recorded.
    reason: str | None = None
    #: The number of the attempt that the status belongs to; absent before the first attempt.
    attempt: int | None = None
    #: The step of a stop order; absent if the job entered `status`.
    stop_order: StopStepResponse | None = None
    #: The job was held or released; absent if the job entered `status`.
    hold: HoldChangeResponse | None = None
    #: The group of the job ended with it; absent if the job entered `status`.
    group_end: GroupEndResponse | None = None

    def text(self, order: str) -> str:
        """The reason; of a step, a hold or the end of a group what happened. `order`: as of `StopStepResponse.text`."""
        change = self.group_end or self.hold
        if change is not None:
            return change.text
        return self.reason or "" if self.stop_order is None else self.stop_order.text(order)


class JobHistoryResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The history of a job, oldest entry first; without entries for a child that its array has not created yet."""

    job_id: str
    history: tuple[HistoryEntryResponse, ...]


class ForceFailResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The job after the request."""

    job_id: str
    status: Status
    status_reason: str | None = None
