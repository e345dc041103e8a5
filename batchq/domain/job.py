"""The stored values of a job: its spec, its state and that of an array. Pure.

They have no behaviour: `lifecycle` has the rules that change them.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from batchq.domain.access.accounts import NO_OWNER, Owner
from batchq.domain.container import ContainerSpec, Overrides, Resources
from batchq.domain.enums import FINISHED, QUEUED, Action, AttemptContainerState, DependencyType, Status, StopKind
from batchq.domain.group_terms import GroupTerms
from batchq.domain.ids import (
    ConsumableName,
    ContainerEngineName,
    DefinitionRef,
    JobId,
    MachineName,
    QueueName,
    Tag,
    name_of_key,
    node_of_key,
)
from batchq.domain.prices import Prices
from batchq.domain.status_counts import StatusCounts
from batchq.domain.stop_values import STOPS_ATTEMPT, ChildOrder, Hold, SignalStep, StopOrder
from batchq.domain.task import Nodes
from batchq.domain.training import CheckpointRules, MetricRule, MetricValue, TrainingPlan
from batchq.domain.use import Use, total_use


class ExitRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of evaluateOnExit. A trailing `*` of a pattern matches any rest; a pattern of None matches all."""

    #: For an attempt that matches all patterns.
    action: Action
    #: Pattern of the attempt's status reason.
    on_status_reason: str | None = None
    #: Pattern of the reason that the container engine gave.
    on_reason: str | None = None
    #: Pattern of the exit code in decimal digits.
    on_exit_code: str | None = None


class RetryStrategy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """AWS's retryStrategy."""

    #: How many attempts the job has at most, the first one included.
    attempts: int = 1
    #: Rules for an attempt that failed: the first that matches decides. AWS: none matches, the job is retried.
    evaluate_on_exit: tuple[ExitRule, ...] = ()


class Dependency(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another job that must have SUCCEEDED before this one starts."""

    #: None: each child of the array waits for the child before it.
    job_id: JobId | None
    #: N_TO_N: child i of the array waits for child i of the other array. Any other value is only echoed.
    type: DependencyType | None = None


class ConsumableRequirement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The units of a consumable resource that a job holds while it holds its other resources."""

    resource: ConsumableName
    #: Units.
    quantity: int


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job definition and SubmitJob's overrides, merged once, at SubmitJob. It never changes.

    The children of an array share the spec of the array.
    """

    name: str
    queue: QueueName
    definition: DefinitionRef
    #: What the job runs, with SubmitJob's overrides applied.
    nodes: Nodes
    #: How many children the array has; None for a job that is not an array.
    array_size: int | None = None
    #: Consumable resources of the whole job.
    needs: tuple[ConsumableRequirement, ...] = ()
    #: SubmitJob's containerOverrides, already applied to `nodes`.
    overrides: Overrides = Overrides()
    #: Names and values for `Ref::name`, already filled in.
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy = RetryStrategy()
    #: The longest that one attempt may run; None: without limit.
    timeout: timedelta | None = None
    depends_on: tuple[Dependency, ...] = ()
    #: The higher starts first within a share; None counts as 0.
    scheduling_priority: int | None = None
    #: The share of the queue's fair-share policy; None in a queue without a policy.
    share_identifier: str | None = None
    #: AWS's propagateTags: validated and echoed; a container has no tags.
    propagate_tags: bool = False
    #: Why the job is accepted and then FAILED, as AWS does; None for a valid job.
    invalid: str | None = None
    #: JSON of what a dialect for training jobs keeps of its request only to return it, as text; None without. It is not
    #: read by the domain, and has the member `dialect`.
    client_document: str | None = None
    #: The time between the stop signal and the kill.
    stop_grace: timedelta
    #: What the job declares about its checkpoints; None: it has no checkpoint directory.
    checkpoints: CheckpointRules | None = None
    #: The user and account that submitted the job.
    owner: Owner = NO_OWNER
    #: The other users who wrote what the job runs: the author of its definition and, of a job that repeats or copies
    #: another one, the owner and the authors of that job. The job has only the rights that all of them have.
    authors: tuple[Owner, ...] = ()
    #: How the metrics of the job are found in its log; empty: by `training_metrics.DEFAULT_RULES`.
    metric_rules: tuple[MetricRule, ...] = ()
    #: How much work a training job will do.
    plan: TrainingPlan = TrainingPlan()
    #: The prices at the submission; None: the server had none, and the cost of the job is not known.
    prices: Prices | None = None
    #: The job that this one repeats, from the tag `batchq:rerun-of`; None: it repeats none.
    rerun_of: JobId | None = None
    #: None: the job is in no group.
    group: GroupTerms | None = None
    #: The webhook of the owner that receives the end of the job, from the tag `batchq:notify`; None: no webhook.
    notify: str | None = None
    #: The container engines that can run the job; empty: all engines of the server.
    engines: tuple[ContainerEngineName, ...] = ()

    @property
    def reports_metrics(self) -> bool:
        """Whether the job is a training job: its last metrics are saved with each attempt."""
        return bool(self.metric_rules) or self.checkpoints is not None or self.plan != TrainingPlan()

    @property
    def resources(self) -> Resources:
        """The resources that the job reserves: the sum of all its containers on all its nodes."""
        return self.nodes.resources

    @property
    def container(self) -> ContainerSpec:
        """The container that represents the job: the first essential one of the main node."""
        return self.nodes.leading.spec

    @property
    def sequential(self) -> bool:
        """Whether each child of the array waits for the one before it."""
        return any(dependency.job_id is None for dependency in self.depends_on)


class AttemptContainer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One container of an attempt, and the signals that stop it."""

    #: The `container_key` of its tag.
    key: str = ""
    state: AttemptContainerState = AttemptContainerState.WAITING
    #: When its start was requested; None while it waits.
    start_requested_at: datetime | None = None
    #: The container engine's id of the container, saved before the container is started; it is never created again.
    #: None until it is created.
    container_id: str | None = None
    #: The name of its pod; None until it is created, and on engines without pods.
    pod: str | None = None
    #: The machine on which its node was placed; None: the container engine has only one.
    machine: MachineName | None = None
    #: As the container engine reports it; None until it runs.
    started_at: datetime | None = None
    #: As the container engine reports it; None until it exits.
    stopped_at: datetime | None = None
    #: None until it exits, and for a container that never ran.
    exit_code: int | None = None
    #: AWS: why it failed, as `OutOfMemoryError: ...`, or never started. Or `AlgorithmError: ` and its failure file.
    #: None if it did not fail.
    reason: str | None = None
    #: Whether it existed and no longer does: it has no exit code, and `reason` is that of its loss.
    lost: bool = False
    #: Whether it has been ordered to stop.
    stop_ordered: bool = False
    #: The signals that it receives until it exits. Empty until its stop is ordered, and if it gets SIGKILL alone.
    steps: tuple[SignalStep, ...] = ()
    #: The index in `steps` of the step under way; their number once SIGKILL is due.
    step: int = 0
    #: When the checkpoint signal was last sent, saved before it was sent; None until then, and without such a step.
    checkpoint_requested_at: datetime | None = None
    #: When the stop signal was delivered; None until then.
    signalled_at: datetime | None = None
    #: When the next step is due, or the next kill; None until the signal of the step under way is delivered.
    next_step_at: datetime | None = None
    #: When SIGKILL was first sent; None until then.
    killed_at: datetime | None = None
    #: The TerminateJob that stopped its node, or of a task this container, alone; else None.
    terminated_by: StopOrder | None = None
    #: The address of its node on the attempt's network; None without one.
    address: str | None = None
    #: Whether it ended because the container engine or the machine went down.
    host_lost: bool = False
    #: Host paths of its mounts that did not exist and were created, as its mounts name them.
    created_host_paths: tuple[str, ...] = ()
    #: What it used as of the last sample that was saved; None: not measured.
    use: Use | None = None

    @property
    def node(self) -> int:
        """The index of its node."""
        return node_of_key(self.key)

    @property
    def name(self) -> str:
        """Its name in the task of its node."""
        return name_of_key(self.key)


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One placement of a job on a compute environment, and the containers that run for it.

    `started_at`, `stopped_at`, `exit_code` and `reason` are derived from the containers.
    """

    #: From 1.
    number: int
    #: The name of the compute environment.
    environment: str
    placed_at: datetime | None = None
    #: When its first container began to run; None until then.
    started_at: datetime | None = None
    #: When the attempt ended; None until then.
    stopped_at: datetime | None = None
    #: When a survey last saw it run, if the container engine did not report its end: it costs until then. Else None.
    charged_until: datetime | None = None
    #: The exit code of the container that decided the attempt; None until the attempt ends, and without an exit code.
    exit_code: int | None = None
    #: The reason of the container that decided the attempt; None until the attempt ends, and without a reason.
    reason: str | None = None
    #: AWS: the reason of the attempt's end.
    status_reason: str | None = None
    #: At least one; those of the main node first.
    containers: tuple[AttemptContainer, ...]
    #: The key of the container whose end decided the attempt: an essential one of the main node, or one whose
    #: condition can no longer be met. None until then.
    decided_by: str | None = None
    #: Whether a pause ended it: it does not count against the attempts of the retry strategy.
    paused: bool = False
    #: Whether a container was refused because the job may not have what it requests: it is not retried.
    forbidden: bool = False
    #: The last value of each metric, by name, once the log of an attempt of a training job is complete.
    metrics: tuple[tuple[str, MetricValue], ...] = ()

    @property
    def use(self) -> Use | None:
        """What all containers of the attempt used. None: no container has run, or one that ran was not measured."""
        return total_use([container.use for container in self.containers if container.started_at is not None])


class ArrayChild(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The position of a job in an array."""

    #: The id of the array.
    parent: JobId
    #: From 0.
    index: int


class ArrayState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of an array's children, stored in the array once its own dependencies are met."""

    #: How many children have been inserted, from index 0.
    spawned: int = 0
    #: To how many children, from index 0, the array's order or hold, or the failure at `failed_index`, was applied.
    order_applied_to: int = 0
    #: Whether what is applied to the children is the array's hold or, without one, its release.
    passes_hold: bool = False
    #: The index of the child of a SEQUENTIAL array whose failure fails all children after it.
    failed_index: int | None = None
    #: How many of the spawned children have each status.
    counts: StatusCounts = ()
    #: How many of the FAILED children were cancelled or terminated.
    stopped: int = 0
    #: When `counts` last changed.
    counted_at: datetime | None = None
    #: When the array was first cancelled or terminated; None: never. No child starts after that.
    ordered_at: datetime | None = None
    #: When the array with an order ended: all children existed and none was active. Their rows may be written later.
    ended_at: datetime | None = None


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job, as it is stored."""

    id: JobId
    #: Its position in the order of submission: unique, ascending.
    sequence: int
    #: Stored once for an array and its children.
    spec: JobSpec
    created_at: datetime
    #: Written only by `lifecycle`.
    status: Status = Status.SUBMITTED
    #: AWS's statusReason.
    status_reason: str | None = None
    #: The attempts that have ended, oldest first.
    attempts: tuple[Attempt, ...] = ()
    #: The attempt under way; not None exactly while the job is STARTING or RUNNING.
    attempt: Attempt | None = None
    #: The orders that had an effect on the job or, on an array, its children, oldest first: pauses of single attempts,
    #: then at most one CancelJob, one TerminateJob or timeout, and one force-fail. They stay after the job has ended.
    stop_orders: tuple[StopOrder, ...] = ()
    #: Whether no compute environment of its queue could ever hold it.
    unschedulable: bool = False
    #: Since when and why the job is held; None: it is not. On an active job: it is held once its attempt has ended.
    hold: Hold | None = None
    #: Since when `status_reason` says why it cannot be placed; None: it does not.
    blocked_at: datetime | None = None
    #: How many times the job has been held or paused.
    times_held: int = 0
    #: When it last became RUNNABLE; None: never yet, and always None on an array.
    runnable_at: datetime | None = None
    #: The latest start of a job that is blocked at the head of its queue; None: not known.
    promised_start: datetime | None = None
    #: None for a job that is not the child of an array.
    child: ArrayChild | None = None
    #: None for a job that is not an array, and for an array whose dependencies are not met.
    array_state: ArrayState | None = None
    #: Orders for children of an array that are not spawned yet; empty once the last child is spawned.
    child_orders: tuple[ChildOrder, ...] = ()
    #: When its latest attempt began to run; None until then.
    started_at: datetime | None = None
    #: When the job ended; None until then.
    stopped_at: datetime | None = None
    tags: tuple[tuple[str, str], ...] = ()
    #: How many times the job was saved after its insertion.
    version: int = 0

    @property
    def tag(self) -> Tag:
        """The tag of the attempt under way, without a container. AssertionError for a job that is not active."""
        assert self.attempt is not None, f"{self.id} is {self.status} and has no attempt under way"
        return Tag(job_id=self.id, attempt=self.attempt.number)

    @property
    def all_attempts(self) -> tuple[Attempt, ...]:
        """The attempts that have ended, oldest first, then the attempt under way."""
        return self.attempts if self.attempt is None else (*self.attempts, self.attempt)

    @property
    def latest_attempt(self) -> Attempt | None:
        """The attempt under way, else the attempt that ended last; None before the first one."""
        return self.attempt or (self.attempts[-1] if self.attempts else None)

    @property
    def held(self) -> bool:
        """Whether the job is queued and placement passes it over until it is released. It blocks no other job."""
        return self.hold is not None and self.status in QUEUED

    @property
    def cancel(self) -> StopOrder | None:
        """The CancelJob: no attempt begins after it. It ends a queued job, and leaves an attempt under way alone."""
        for order in self.stop_orders:
            if order.kind is StopKind.CANCEL:
                return order
        return None

    @property
    def stop(self) -> StopOrder | None:
        """The TerminateJob or timeout: the job ends when its containers have exited or, of an array, its children.

        Without one the pause of the attempt under way, which does not end the job.
        """
        pause = None
        for order in self.stop_orders:
            if order.kind is StopKind.PAUSE:
                pause = order if self.attempt is not None and order.attempt == self.attempt.number else pause
            elif order.kind in STOPS_ATTEMPT:
                return order
        return pause

    @property
    def is_pausing(self) -> bool:
        """Whether the attempt under way is being stopped by a pause."""
        return self.stop is not None and self.stop.kind is StopKind.PAUSE

    @property
    def max_attempts(self) -> int:
        """The attempts of the retry strategy, and those that pauses ended, which do not count."""
        return self.spec.retry.attempts + sum([attempt.paused for attempt in self.attempts])

    @property
    def is_cancelled(self) -> bool:
        """AWS's isCancelled: a cancel ended the job or prevented its retry.

        False while the attempt of a cancelled job continues. True for an array with children from the cancel on.
        """
        if not self.stop_orders:
            return False
        if self.array_state is not None and self.status not in FINISHED:
            return self.cancel is not None
        return self.status is Status.FAILED and self.stop_orders[-1].kind is StopKind.CANCEL

    @property
    def is_terminated(self) -> bool:
        """AWS's isTerminated: a TerminateJob ordered the job to stop."""
        return self.stop is not None and self.stop.kind is StopKind.TERMINATE
