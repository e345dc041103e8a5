"""Stop orders and holds of jobs, and the lines of the response to a bulk stop."""

from msgspec import Struct

from batchq.domain.enums import Outcome, Status, StopKind, StopProgress
from batchq.domain.stop_messages import STEP_WORDS


class StopOrderResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An order to cancel or stop a job."""

    #: PAUSE, CANCEL and TERMINATE are requests of users; TIMEOUT is the job's own; FORCE_FAIL is an administrator's.
    kind: StopKind
    #: The user who gave the order; absent for an order of the server itself.
    user: str | None = None
    #: When it was accepted, in milliseconds since 1970.
    at: int
    #: The number of the attempt that a pause stops; absent for any other order.
    attempt: int | None = None
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: Whether a final checkpoint was requested of a job that could write one.
    final_checkpoint_requested: bool = False
    #: When the checkpoint signal was first delivered, in milliseconds since 1970; absent until then.
    checkpoint_requested_at: int | None = None
    #: The name of the final checkpoint; absent until one is seen.
    final_checkpoint: str | None = None
    #: When the final checkpoint was seen, in milliseconds since 1970; absent until then.
    checkpoint_seen_at: int | None = None
    #: Why the final checkpoint is missing; absent if it is not, or may still come.
    checkpoint_error: str | None = None
    #: Whether the checkpoints from before the order are kept.
    keep_checkpoints: bool = True
    #: When the stop signal was first delivered, in milliseconds since 1970; absent until then.
    signalled_at: int | None = None
    #: When the order was forced, in milliseconds since 1970; absent until then.
    forced_at: int | None = None
    #: The user who forced it; absent until then, and for the server itself.
    forced_by: str | None = None
    #: When a container was first killed, in milliseconds since 1970; absent until then.
    killed_at: int | None = None


class StopStepResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A step of a stop order in the history of a job."""

    progress: StopProgress
    kind: StopKind
    #: The user who gave the order or, of FORCED, who forced it; absent for the server itself.
    user: str | None = None
    #: When the order was accepted, in milliseconds since 1970.
    at: int
    #: The caller's reason, or the text of the timeout.
    reason: str
    #: The name of the final checkpoint, of CHECKPOINT_SEEN; absent otherwise.
    checkpoint: str | None = None
    #: The node that the order stops alone; absent for an order to the whole job.
    node: int | None = None
    #: The container of a task that the order stops alone; absent for an order to the whole job.
    container: str | None = None

    def text(self, order: str) -> str:
        """What happened, after the node or container that alone is stopped. `order`: the text of the order itself."""
        text = STEP_WORDS.get(self.progress, order)
        if self.checkpoint is not None:
            text = f"{text} {self.checkpoint}"
        elif self.progress is StopProgress.FORCED and self.user:
            text = f"{text} by {self.user}"
        if self.container is not None:
            return f"container {self.container}: {text}"
        return text if self.node is None else f"node {self.node}: {text}"


class HoldResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Why a job is held: it does not start until it is released or resumed."""

    #: The caller's reason.
    reason: str
    #: The user who holds it; absent for the server itself.
    user: str | None = None
    #: Milliseconds since 1970.
    held_at: int
    #: Whether it was paused. A STARTING or RUNNING job with a hold is being paused.
    paused: bool = False

    @property
    def text(self) -> str:
        """`held by ada: too early`."""
        return f"{'paused' if self.paused else 'held'} by {self.user or 'the server'}: {self.reason}"


class HoldChangeResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An entry of a job's history: the job was held or released."""

    #: The hold; absent if the job was released.
    held: HoldResponse | None = None
    #: The user who released or resumed it; absent for a hold, and for the server itself.
    released_by: str | None = None

    @property
    def text(self) -> str:
        """Who holds the job and why, or who released it."""
        return f"released by {self.released_by or 'the server'}" if self.held is None else self.held.text


class JobLine(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The line of one job in the response."""

    job_id: str
    #: None for a job that was not found.
    job_name: str | None = None
    #: The status before the request; None for a job that was not found.
    status: Status | None = None
    outcome: Outcome
    #: Why nothing was done, what happens to an array's children, or since when and by whom the job is being stopped.
    message: str = ""
    #: The earlier order because of which this one changed nothing; None: it had an effect.
    standing: StopOrderResponse | None = None
    #: Of an unfinished array: how many of its children had not ended, those that are not created yet among them.
    children: int = 0


class CountsLine(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last line of the response."""

    #: The number of jobs by outcome. An array is one job.
    counts: dict[str, int]
    #: The number of children of arrays by the outcome of their array, as the lines have them; only numbers above 0.
    children: dict[str, int] = {}
    #: Whether nothing was done.
    dry_run: bool
