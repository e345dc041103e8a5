"""What the server has recorded: the status changes of jobs, their output, and audit records."""

from msgspec import Struct

from batchq.domain.enums import Status
from batchq.ports.responses.groups import GroupEndResponse
from batchq.ports.responses.stops import HoldChangeResponse, StopStepResponse


class EventResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job entered a status, an order to stop it has come a step further, or it was held or released."""

    #: The number of the event; numbers ascend, and are never used twice.
    number: int
    #: Milliseconds since 1970.
    at: int
    job_id: str
    job_name: str
    job_queue: str
    user: str
    account: str
    #: The status that the job entered or, with `stopOrder` or `hold`, had at that time.
    status: Status
    #: Why the job has the status; absent if no reason is recorded.
    status_reason: str | None = None
    #: The number of the attempt that the status belongs to; absent before the first attempt.
    attempt: int | None = None
    #: The step of a stop order; absent if the job entered `status`.
    stop_order: StopStepResponse | None = None
    #: The job was held or released; absent if the job entered `status`.
    hold: HoldChangeResponse | None = None
    #: The group of the job ended with it; absent if the job entered `status`.
    group_end: GroupEndResponse | None = None


class ListEventsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of events. It may be empty although more events follow `next`."""

    #: By number, ascending.
    events: tuple[EventResponse, ...]
    #: The `after` of the next request.
    next: int
    #: Whether events before these may be missing: they were deleted with their jobs, or the data was restored.
    gap: bool


class LogLineResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of output."""

    #: Milliseconds since 1970, by the clock of the container engine.
    at: int
    #: The text without the line end.
    message: str


class GetJobLogResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The next lines of a log, all of one attempt."""

    lines: tuple[LogLineResponse, ...]
    #: The `after` of the next request.
    next: str
    #: Whether no more lines can come.
    over: bool
    #: The number of the attempt; absent before the first one.
    attempt: int | None = None
    #: Of a request without `after` and `wait`: whether output from before the request may be missing, because the
    #: container engine has not delivered it within 3 s.
    incomplete: bool = False


class AuditRecordResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A record of the audit log."""

    #: Milliseconds since 1970.
    at: int
    #: The user who made the request.
    user: str
    account: str
    #: The access key of the request; null if it was not signed.
    key: str | None
    #: Null for a command on the files.
    request_id: str | None
    #: As `SubmitJob`.
    operation: str
    #: The changed resource, as `job/ID`.
    resource: str
    #: `done`, or what the request changed or why it failed.
    outcome: str


class ListAuditResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A page of audit records."""

    #: Newest first.
    records: tuple[AuditRecordResponse, ...]
    #: The token of the next page; absent on the last one.
    next_token: str | None = None
