"""The stored values of orders to cancel, stop, pause or hold a job. Pure.

`lifecycle.stopping`, `lifecycle.escalation` and `lifecycle.holds` have the rules that change them.
"""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import UserName
from batchq.domain.enums import StopKind, StopProgress

#: The orders that stop the attempt under way: the containers get a stop signal, and are killed after the grace period.
STOPS_ATTEMPT = frozenset({StopKind.PAUSE, StopKind.TERMINATE, StopKind.TIMEOUT})
NOT_WRITTEN = "none when the container ended"  # of a final checkpoint


class SignalStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a stop: a signal, and how long its effect is waited for. SIGKILL follows the last step."""

    #: As `SIGUSR1`; None: the image's StopSignal, or SIGTERM.
    signal: str | None = None
    #: From the delivery of the signal to the next step.
    wait: timedelta
    #: Whether a new checkpoint ends the step early.
    until_checkpoint: bool = False


class StopOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order to cancel or stop a job, stored beside the status: who gave it, when and why, and its first effects.

    Each container that it stops has its own stop steps, `AttemptContainer.steps`.
    """

    kind: StopKind
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: The user who gave it; empty for an order of the server itself.
    user: UserName = UserName("")
    #: When it was accepted.
    ordered_at: datetime
    #: The number of the attempt that a pause stops; None for any other order, which concerns the whole job.
    attempt: int | None = None
    #: The signals to a container that runs when the order is given. Empty for an order that sends no signal.
    steps: tuple[SignalStep, ...] = ()
    #: When the checkpoint signal was last sent to any container; None: never.
    checkpoint_requested_at: datetime | None = None
    #: When the stop signal was first delivered to any container; None: never.
    signalled_at: datetime | None = None
    #: When SIGKILL was first sent to any container; None: never.
    killed_at: datetime | None = None
    #: When the order was forced: SIGKILL without further steps; None: it was not.
    forced_at: datetime | None = None
    #: The user who forced it; empty for the server itself, and if it was not forced.
    forced_by: UserName = UserName("")
    #: Whether a final checkpoint was requested, and the job could write one: it ran, and has a checkpoint directory.
    final_checkpoint_requested: bool = False
    #: Whether the checkpoints from before the order are kept.
    keep_checkpoints: bool = True
    #: Whether a TerminateJob named a final checkpoint, also of a job that could not write one: the newest one is kept.
    final_checkpoint_named: bool = False
    #: The name of the final checkpoint, an entry of the checkpoint directory; None: none was seen, or requested.
    final_checkpoint: str | None = None
    #: When the final checkpoint was seen; None: never.
    checkpoint_seen_at: datetime | None = None
    #: Why the final checkpoint is missing, as `none after 120 s`; None: it is not, or may still come.
    checkpoint_error: str | None = None

    @property
    def ended(self) -> "StopOrder":
        """The order once the attempt has ended: a final checkpoint that was not seen is missing."""
        if not self.final_checkpoint_requested or self.final_checkpoint or self.checkpoint_error:
            return self
        return replace(self, checkpoint_error=NOT_WRITTEN)

    @property
    def longest(self) -> timedelta:
        """The time from the first signal to SIGKILL if no step ends early."""
        return sum((step.wait for step in self.steps), timedelta())


class StopStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a stop order, as an entry of the job's history shows it."""

    progress: StopProgress
    kind: StopKind
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: The user who gave the order or, of FORCED, who forced it; empty for the server itself.
    user: UserName = UserName("")
    #: When the order was accepted.
    ordered_at: datetime
    #: The name of the final checkpoint, of CHECKPOINT_SEEN; else None.
    checkpoint: str | None = None
    #: The node that the order stops alone; None: the whole job.
    node: int | None = None
    #: The container of a task that the order stops alone; None: all of them.
    container: str | None = None


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


class Hold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a job is not placed although it could be: a user holds it until it is released."""

    #: The caller's reason.
    reason: str
    #: The user who holds the job; empty: the server itself.
    user: UserName = UserName("")
    #: When the request was accepted.
    held_at: datetime
    #: Whether the job was paused, and is to be resumed.
    paused: bool = False
