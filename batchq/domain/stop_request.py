"""What a caller asks about the end of jobs: one value of every dialect, the console and bulk stops. Pure. Note 0087.

`event` translates the request into the lifecycle's event for one job.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from batchq.domain import events as on
from batchq.domain.access.accounts import UserName
from batchq.domain.enums import StopKind
from batchq.errors import Invalid

FORCE_ALONE = "Force sends SIGKILL at once: it excludes a final checkpoint, a signal and a grace period."
SIGNALS = frozenset({"ABRT", "ALRM", "HUP", "INT", "KILL", "QUIT", "TERM", "USR1", "USR2", "WINCH"})


class StopRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to cancel, terminate or pause jobs. A pause has a reason and no other options."""

    #: CANCEL, TERMINATE or PAUSE.
    kind: StopKind
    #: The caller's reason.
    reason: str
    #: The caller, set by the service; empty: the server itself.
    user: UserName = UserName("")
    #: The time between the stop signal and the kill; None: each job's own.
    grace: timedelta | None = None
    #: The stop signal; None: the image's StopSignal, or SIGTERM.
    signal: str | None = None
    #: Whether a final checkpoint is requested of each job that runs and has a checkpoint directory.
    checkpoint: bool = False
    #: Whether the checkpoints from before the order are kept.
    keep_checkpoints: bool = True
    #: Whether jobs are killed at once, also those that are stopping already.
    force: bool = False

    def check(self) -> None:
        """Raise Invalid for force with an option of a slower stop."""
        if self.force and (self.checkpoint or self.signal is not None or self.grace is not None):
            raise Invalid(FORCE_ALONE)

    def event(
        self, *, node: int | None = None, container: str | None = None, requested_at: datetime | None = None
    ) -> on.StopEvent:
        """The event of a CANCEL or TERMINATE for one job.

        `node`: of a multi-node job; `container`: of a task; None: the job as a whole. `requested_at` None: now.
        """
        assert self.kind is not StopKind.PAUSE, "a pause holds the job: JobService delivers it"
        if self.kind is StopKind.CANCEL:
            return on.CancelRequested(reason=self.reason, user=self.user, requested_at=requested_at, node=node)
        event = on.StopForced if self.force else on.TerminateRequested
        return event(
            reason=self.reason,
            user=self.user,
            requested_at=requested_at,
            grace=self.grace,
            node=node,
            container=container,
            signal=self.signal,
            checkpoint=self.checkpoint,
            keep_checkpoints=self.keep_checkpoints,
        )


def parse_signal(text: str) -> str:
    """A signal, with or without SIG and in any case, as `SIGINT`. Raises Invalid."""
    name = text.upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise Invalid(f"{text!r} is not a supported signal: use {', '.join(sorted(SIGNALS))}.")
    return f"SIG{name}"
