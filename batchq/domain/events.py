"""Events: facts about a job, named in the past tense. Pure. Import as `on`, and write `on.ContainerExited`."""

from datetime import datetime, timedelta

from msgspec import Struct

from batchq.domain import status_reasons
from batchq.domain.access.accounts import UserName
from batchq.domain.ids import JobId, MachineName


class AttemptEvent(Struct, frozen=True, kw_only=True):
    """An event about an attempt."""

    #: The number of the attempt.
    attempt: int


class ContainerEvent(AttemptEvent, frozen=True, kw_only=True):
    """An event about one container of an attempt."""

    #: The `Tag.container_key` of the container.
    container_key: str = ""


class _UserRequest(Struct, frozen=True, kw_only=True):
    """A request about a job."""

    #: The user who made the request; empty: the server itself.
    user: UserName = UserName("")


class _ReasonedRequest(_UserRequest, frozen=True, kw_only=True):
    """A request with a reason."""

    #: The caller's reason.
    reason: str


class _StopRequest(_ReasonedRequest, frozen=True, kw_only=True):
    """A request to cancel or stop a job."""

    #: When the request was accepted; None: now.
    requested_at: datetime | None = None
    #: The node of a multi-node job that the request named; None: the whole job.
    node: int | None = None


class DependenciesPending(Struct, frozen=True, kw_only=True):
    """At least one dependency has not ended yet."""


class DependenciesMet(Struct, frozen=True, kw_only=True):
    """Every dependency has SUCCEEDED, or the job has none."""


class DependencyFailed(Struct, frozen=True, kw_only=True):
    """The dependency `job_id` has FAILED, or is no longer known."""

    job_id: JobId

    @property
    def reason(self) -> str:
        """The status reason."""
        return status_reasons.dependency_failed(self.job_id)


class FoundInvalid(Struct, frozen=True, kw_only=True):
    """The job is invalid in a way that AWS accepts at SubmitJob and then fails."""

    #: The status reason.
    reason: str


class FoundUnschedulable(Struct, frozen=True, kw_only=True):
    """No compute environment of the job's queue could hold it even if nothing else ran."""

    #: The status reason.
    reason: str


class FoundSchedulable(Struct, frozen=True, kw_only=True):
    """An environment can hold a job that was unschedulable before; it may be placed."""


class FoundBlocked(Struct, frozen=True, kw_only=True):
    """The job is the head of its queue, and does not fit now."""

    #: The status reason.
    reason: str
    #: The latest time at which it starts; None: not known.
    promise: datetime | None = None


class BlockedTooLong(Struct, frozen=True, kw_only=True):
    """AWS: a jobStateTimeLimitAction of its queue cancels a job that was blocked too long."""

    #: The status reason for which it was blocked.
    reason: str


class Placed(Struct, frozen=True, kw_only=True):
    """The job was placed on a compute environment, and its resources are held there."""

    #: The name of the environment.
    environment: str
    #: The machine of each node; empty: the container engine has only one.
    machines: tuple[MachineName, ...] = ()


class ContainerCreated(ContainerEvent, frozen=True, kw_only=True):
    """The container was created. It is started only once its id is saved (decision 0013)."""

    #: The container engine's id of the container.
    container_id: str
    #: Host paths of its mounts that did not exist and were created for it.
    created_host_paths: tuple[str, ...] = ()
    #: The name of its pod; None: the container engine has no pods.
    pod: str | None = None


class ContainerDiscarded(ContainerEvent, frozen=True, kw_only=True):
    """The created container never ran and can never start: it is removed, and another one is created.

    Its absence does not end the attempt (decision 0013).
    """


class ContainerStarted(ContainerEvent, frozen=True, kw_only=True):
    """The container is running."""

    #: By the container engine's clock.
    started_at: datetime
    #: The address of its node on the attempt's network; None without one.
    address: str | None = None


class StartFailed(ContainerEvent, frozen=True, kw_only=True):
    """The container engine reported definitely that the container cannot start, or that its image cannot be pulled."""

    #: The container's reason.
    reason: str
    exit_code: int | None = None
    #: Whether the container policy or the server's settings refused it: the job is not retried.
    forbidden: bool = False


class StartAbandoned(ContainerEvent, frozen=True, kw_only=True):
    """The start was abandoned before it was requested from the container engine, because the job is ordered to stop."""


class ContainerExited(ContainerEvent, frozen=True, kw_only=True):
    """The container ran and has exited; all members are from an inspection of it."""

    exit_code: int
    #: By the container engine's clock.
    started_at: datetime
    #: By the container engine's clock.
    stopped_at: datetime
    #: Whether it was killed because it used up its memory.
    out_of_memory: bool = False
    #: Whether it ended because the container engine or the machine went down.
    host_lost: bool = False
    #: The beginning of its `failure_file`; None: it has none, or did not fail.
    failure: str | None = None


class ContainerLost(ContainerEvent, frozen=True, kw_only=True):
    """The container existed and no longer does, or is in an impossible state."""

    #: The status reason of the attempt.
    reason: str = status_reasons.DISAPPEARED


class CheckpointRequested(ContainerEvent, frozen=True, kw_only=True):
    """The checkpoint signal of a stop step is about to be sent: from now on it may be delivered."""

    #: The index of the step.
    step: int = 0


class StopSignalDelivered(ContainerEvent, frozen=True, kw_only=True):
    """The signal of a stop step was delivered: the wait of that step starts."""

    #: The index of the step.
    step: int = 0


class CheckpointSeen(AttemptEvent, frozen=True, kw_only=True):
    """A complete checkpoint that is newer than the stop order exists. It ends a step that waits for one."""

    #: The name of the entry in the checkpoint directory.
    name: str


class TimedOut(AttemptEvent, frozen=True, kw_only=True):
    """The attempt has run for as long as the job's timeout."""


class AttemptSuperseded(AttemptEvent, frozen=True, kw_only=True):
    """A container of a later attempt exists: the attempt has ended, and the job went on. Only after a restore."""


class GraceExpired(ContainerEvent, frozen=True, kw_only=True):
    """The wait of the step under way is over, or it is time to repeat the kill, and the container has not exited."""


class StartTimedOut(ContainerEvent, frozen=True, kw_only=True):
    """A container did not meet within its startTimeout the conditions that others of its task wait for."""


class CancelRequested(_StopRequest, frozen=True, kw_only=True):
    """A CancelJob."""


class TerminateRequested(_StopRequest, frozen=True, kw_only=True):
    """A TerminateJob."""

    #: The time between the stop signal and the kill; None: the job's own.
    grace: timedelta | None = None
    #: The container of a task that the request named; None: all of them.
    container: str | None = None
    #: The stop signal; None: the image's StopSignal, or SIGTERM.
    signal: str | None = None
    #: Whether a final checkpoint is requested first, of a job that is RUNNING and has a checkpoint directory.
    checkpoint: bool = False
    #: Whether the checkpoints from before the order are kept.
    keep_checkpoints: bool = True

    @property
    def names_part(self) -> bool:
        """Whether the request names a node, or a container of a task, and not the whole job."""
        return self.node is not None or self.container is not None


class StopForced(TerminateRequested, frozen=True, kw_only=True):
    """A TerminateJob with force: SIGKILL at once, also for a job that is stopping already. It may lose data.

    A job that is stopping keeps its first order, with its reason. `grace`, `signal` and `checkpoint` have no effect.
    """


class HoldRequested(_ReasonedRequest, frozen=True, kw_only=True):
    """A request to keep a queued job from being placed."""

    #: Whether its array passes its own hold on to it; then an active child is held once its attempt has ended.
    of_array: bool = False


class ReleaseRequested(_UserRequest, frozen=True, kw_only=True):
    """A request to let a held job be placed again."""


class PauseRequested(_ReasonedRequest, frozen=True, kw_only=True):
    """A request to stop the attempt of a job, if there is one, and to hold the job."""

    #: Whether its array passes its own pause on to it.
    of_array: bool = False


class ResumeRequested(_UserRequest, frozen=True, kw_only=True):
    """A request to let a paused job be placed again, or one that is being paused, once its attempt has ended."""


class ForceFailed(_ReasonedRequest, frozen=True, kw_only=True):
    """An administrator ends a job whose container does not exit."""


#: The requests that end a job.
StopEvent = CancelRequested | TerminateRequested | StopForced
#: The requests to hold a job, or to end its hold.
HoldEvent = HoldRequested | ReleaseRequested | PauseRequested | ResumeRequested
Event = (
    DependenciesPending
    | DependenciesMet
    | DependencyFailed
    | FoundInvalid
    | FoundUnschedulable
    | FoundSchedulable
    | FoundBlocked
    | BlockedTooLong
    | Placed
    | AttemptEvent
    | StopEvent
    | HoldEvent
    | ForceFailed
)
