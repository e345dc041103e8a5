"""The stored values of orders to cancel or stop a job. Pure. `lifecycle.stop_order` has the rules that change them."""

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from batchq.domain.access.accounts import UserName


class StopKind(StrEnum):
    """The origin of a stop order, in the order in which a later one may follow an earlier one."""

    #: A CancelJob, or the action of a queue's jobStateTimeLimitActions.
    CANCEL = "CANCEL"
    #: A TerminateJob.
    TERMINATE = "TERMINATE"
    #: The job's timeout.
    TIMEOUT = "TIMEOUT"
    #: An administrator's `batchq force-fail`.
    FORCE_FAIL = "FORCE_FAIL"


#: The orders that stop the attempt under way: the containers get a stop signal, and are killed after the grace period.
STOPS_ATTEMPT = frozenset({StopKind.TERMINATE, StopKind.TIMEOUT})


class StopOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order to cancel or stop a job, beside the status: who gave it, when and why, and its progress."""

    kind: StopKind
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: The user who gave it; empty for an order of the server itself.
    user: UserName = UserName("")
    #: When it was accepted.
    ordered_at: datetime
    #: The time between the stop signal and the kill; zero for an order that sends no signal.
    grace: timedelta = timedelta()
    #: The stop signal; None: the image's StopSignal, or SIGTERM.
    signal: str | None = None
    #: When the stop signal was first delivered to a container; None until then.
    signalled_at: datetime | None = None
    #: When the container is killed, or killed again; None until the stop signal is delivered, and in an attempt with
    #: several containers, which have deadlines of their own.
    kill_at: datetime | None = None
    #: When a container was first killed; None until then.
    killed_at: datetime | None = None


class StopProgress(StrEnum):
    """How far a stop order has come."""

    #: The order was accepted, and applies to the job.
    ORDERED = "ORDERED"
    #: The stop signal was first delivered.
    SIGNALLED = "SIGNALLED"
    #: A container was first killed.
    KILLED = "KILLED"


class StopStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a stop order, as an entry of the job's history shows it."""

    progress: StopProgress
    kind: StopKind
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: The user who gave the order; empty for an order of the server itself.
    user: UserName = UserName("")
    #: When the order was accepted.
    ordered_at: datetime
    #: The node that the order stops alone; None: the whole job.
    node: int | None = None


class ChildOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A CancelJob or TerminateJob for children that their array has not spawned yet."""

    #: The indices of the children, in the order of the requests.
    indices: tuple[int, ...]
    #: The caller's reason.
    reason: str
    #: Whether it is a TerminateJob.
    terminate: bool
    #: The user who made the requests.
    user: UserName = UserName("")
    #: When each request was accepted, in the order of `indices`: milliseconds since the array was created.
    delays_ms: tuple[int, ...] = ()
    #: The time between the stop signal and the kill; None: the job's own.
    grace: timedelta | None = None
    #: The stop signal; None: the image's StopSignal, or SIGTERM.
    signal: str | None = None
