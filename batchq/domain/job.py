"""A job as batchq remembers it. Values only; what may happen to it is in `lifecycle`.

What a job leaves behind beside its row. Pure.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import NOBODY, Owner
from batchq.domain.container import ContainerSpec, Overrides, Resources
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName, Tag
from batchq.domain.task import Nodes, Task


class Status(StrEnum):
    """AWS Batch's seven, in the order a job passes them."""

    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNABLE = "RUNNABLE"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


QUEUED = frozenset({Status.SUBMITTED, Status.PENDING, Status.RUNNABLE})

ACTIVE = frozenset({Status.STARTING, Status.RUNNING})

FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED})


class Action(StrEnum):
    RETRY = "RETRY"
    EXIT = "EXIT"


class ExitRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of evaluateOnExit. A pattern that is None is not asked about; a trailing `*` matches any rest."""

    action: Action
    on_status_reason: str | None = None
    on_reason: str | None = None
    on_exit_code: str | None = None


class RetryStrategy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    attempts: int = 1
    evaluate_on_exit: tuple[ExitRule, ...] = ()


class DependencyType(StrEnum):
    SEQUENTIAL = "SEQUENTIAL"
    N_TO_N = "N_TO_N"


class Dependency(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another job that must have SUCCEEDED first. `job_id` None: each child of an array waits for the one before it.

    N_TO_N: child i of an array waits for child i of the named one. Else `type` is echoed and makes no difference.
    """

    job_id: JobId | None
    type: DependencyType | None = None


class Need(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many units of a consumable resource a job takes while it holds its room."""

    resource: ConsumableName
    quantity: int


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for: the definition and SubmitJob's overrides, merged once, at SubmitJob. It never changes.

    `task` is there when a job has several containers, `nodes` when it has several nodes; `container` is then the
    first essential one, of the main node. The children of an array share its spec.
    `invalid` is why AWS takes the job only to fail it; `owner` whose it is, for ever.
    """

    name: str
    queue: QueueName
    definition: DefinitionRef
    container: ContainerSpec
    task: Task | None = None
    nodes: Nodes | None = None
    array_size: int | None = None
    needs: tuple[Need, ...] = ()
    overrides: Overrides = Overrides()
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy = RetryStrategy()
    timeout: timedelta | None = None
    depends_on: tuple[Dependency, ...] = ()
    scheduling_priority: int | None = None
    share_identifier: str | None = None
    propagate_tags: bool = False
    invalid: str | None = None
    stop_grace: timedelta
    owner: Owner = NOBODY

    @property
    def resources(self) -> Resources:
        """What the job reserves as a whole: all its containers, on all its nodes."""
        if self.nodes is not None:
            return self.nodes.resources
        return self.container.resources if self.task is None else self.task.resources

    @property
    def sequential(self) -> bool:
        """Whether each child of the array waits for the one before it."""
        return any(it.job_id is None for it in self.depends_on)


class PartState(StrEnum):
    """WAITING for another container, or for the main node. ENDED: over, or it will never start."""

    WAITING = "WAITING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One container of an attempt that has several.

    `key` is the `part` of its tag. `begun_at` is when its start was asked for; `container` as in `Attempt`. `stopping`:
    it is to end, and has its `grace`; `kill_at` and `killed_at` are as in `Stop`, for this container. `terminated`: its
    node alone was, with this reason of the caller's. `signal`: what it is asked with, None the
    image's own. `address` is its node's on the network of the attempt. `host_lost`: it ended with the host.
    """

    key: str
    state: PartState = PartState.WAITING
    begun_at: datetime | None = None
    container: str | None = None
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    exit_code: int | None = None
    reason: str | None = None
    stopping: bool = False
    terminated: str | None = None
    grace: timedelta | None = None
    signal: str | None = None
    kill_at: datetime | None = None
    killed_at: datetime | None = None
    address: str | None = None
    host_lost: bool = False
    #: Host paths of its mounts that did not exist and were created, as its mounts name them.
    created_host_paths: tuple[str, ...] = ()

    @property
    def node(self) -> int:
        return int(self.key.partition("/")[0])

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One placing of a job on an environment, at `placed_at`. The finished ones are a job's `attempts`.

    `container` is the engine's id of what was made for it, known before that is started: it is never made again.
    `parts` are its containers where it has several, main node first; `decided` is the key of the essential one of the
    main node whose end decides, or of one that waited in vain and so ended the task. `forbidden`: a container of it
    was not started because the job may not have what it asks for.
    """

    number: int
    environment: str
    placed_at: datetime | None = None
    container: str | None = None
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    exit_code: int | None = None
    reason: str | None = None
    status_reason: str | None = None
    parts: tuple[Part, ...] = ()
    decided: str | None = None
    forbidden: bool = False
    #: As in `Part`, where the attempt has one container.
    created_host_paths: tuple[str, ...] = ()


class StopCause(StrEnum):
    TERMINATED = "TERMINATED"
    TIMED_OUT = "TIMED_OUT"


class Stop(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order to stop, beside the status: the job is over when its container is.

    `kill_at` is None until the container has been asked (SIGTERM delivered); from then it is when to kill (again).
    `killed_at` is the first kill. `signal` is what asks it, None the image's StopSignal or SIGTERM.
    """

    cause: StopCause
    reason: str
    ordered_at: datetime
    grace: timedelta
    signal: str | None = None
    kill_at: datetime | None = None
    killed_at: datetime | None = None


class Child(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which child of which array a job is."""

    parent: JobId
    index: int


class Family(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an array parent remembers of its children; there from when its own dependencies are met.

    `counts` of those spawned, by status. `broken_at` is the child of a SEQUENTIAL array whose failure fails all after
    it. `told` is how many, from the first, have heard of the parent's order (or of that failure). `ordered_at` is when
    its first order was given: none that waited then starts any more. `over_at` is when no other was under way any more
    either: then it is over, whatever is yet to be written.
    """

    spawned: int = 0
    told: int = 0
    broken_at: int | None = None
    counts: tuple[tuple[Status, int], ...] = ()
    counted_at: datetime | None = None
    ordered_at: datetime | None = None
    over_at: datetime | None = None


class ChildOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A CancelJob, or with `terminate` a TerminateJob, to children that their array has not spawned yet."""

    #: In the order in which they were given.
    indices: tuple[int, ...]
    reason: str
    terminate: bool
    #: None is the job's own.
    grace: timedelta | None = None
    #: None is the image's StopSignal, or SIGTERM.
    signal: str | None = None


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job and all that is remembered of it.

    `order` is its place in the order of submission. `attempt` is the one under way, there exactly while the job is
    STARTING or RUNNING. `cancelled` is a CancelJob's reason: on a FAILED job the one that ended it, on an active one
    a remembered one. `misfit` says that no environment of its queue could ever hold it; `blocked_at` since when that,
    or its waiting at the head of its queue, is what `status_reason` says. `version` counts its saves.
    """

    id: JobId
    order: int
    spec: JobSpec
    created_at: datetime
    status: Status = Status.SUBMITTED
    status_reason: str | None = None
    attempts: tuple[Attempt, ...] = ()
    attempt: Attempt | None = None
    stop: Stop | None = None
    cancelled: str | None = None
    misfit: bool = False
    blocked_at: datetime | None = None
    #: While the job is blocked as the first of its queue: by when at the latest it starts. None: not known.
    promised_start: datetime | None = None
    child: Child | None = None
    family: Family | None = None
    #: Of an array, until its last child is spawned.
    child_orders: tuple[ChildOrder, ...] = ()
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    tags: tuple[tuple[str, str], ...] = ()
    version: int = 0

    @property
    def tag(self) -> Tag:
        """The attempt under way. Only an active job has one."""
        assert self.attempt is not None, f"{self.id} is {self.status} and has no attempt under way"
        return Tag(job_id=self.id, attempt=self.attempt.number)

    @property
    def is_cancelled(self) -> bool:
        """An active job that is to have no other attempt is not; the parent of an array whose children live is."""
        return self.cancelled is not None and (self.status is Status.FAILED or self.family is not None)

    @property
    def is_terminated(self) -> bool:
        return self.stop is not None and self.stop.cause is StopCause.TERMINATED


def tags(job: Job) -> tuple[Tag, ...]:
    """The containers of all its attempts, also of those that may never have run."""
    attempts = (*job.attempts, *(() if job.attempt is None else (job.attempt,)))
    whole = (Tag(job_id=job.id, attempt=it.number) for it in attempts)
    parts = ([part.key for part in it.parts] or [""] for it in attempts)
    return tuple(replace(tag, part=key) for tag, keys in zip(whole, parts, strict=True) for key in keys)
