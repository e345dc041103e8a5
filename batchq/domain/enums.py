"""The closed sets of words that responses of the API have.

This module imports nothing of batchq: the command line loads it for each command.
"""

from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """AWS Batch's seven job statuses, in the order in which a job passes through them."""

    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNABLE = "RUNNABLE"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


#: The job has no attempt under way.
QUEUED = frozenset({Status.SUBMITTED, Status.PENDING, Status.RUNNABLE})


#: The job has an attempt under way and holds resources.
ACTIVE = frozenset({Status.STARTING, Status.RUNNING})


#: The final statuses.
FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED})


class Action(StrEnum):
    """The action of an entry of evaluateOnExit: retry the job, or fail it."""

    RETRY = "RETRY"
    EXIT = "EXIT"


class DependencyType(StrEnum):
    """AWS's dependency types of array jobs."""

    SEQUENTIAL = "SEQUENTIAL"
    N_TO_N = "N_TO_N"


class MachineState(StrEnum):
    """Whether a machine takes new jobs. The order is that of lists: what may need an operator comes first."""

    #: It does not answer the container engine: it gets no new job, and its jobs may still run.
    AWAY = "AWAY"
    #: It answers, and is excluded from new jobs. Its jobs continue.
    CORDONED = "CORDONED"
    READY = "READY"


class AttemptContainerState(StrEnum):
    """The state of one container of an attempt with several."""

    #: It waits for another container, or for the main node.
    WAITING = "WAITING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    #: It has exited, or will never start.
    ENDED = "ENDED"


class StopKind(StrEnum):
    """The origin of a stop order, in the order in which a later one may follow an earlier one."""

    #: A user's request to pause the job. It stops one attempt, and does not end the job.
    PAUSE = "PAUSE"
    #: A CancelJob, or the action of a queue's jobStateTimeLimitActions.
    CANCEL = "CANCEL"
    #: A TerminateJob.
    TERMINATE = "TERMINATE"
    #: The job's timeout.
    TIMEOUT = "TIMEOUT"
    #: An administrator's `batchq force-fail`.
    FORCE_FAIL = "FORCE_FAIL"


class StopProgress(StrEnum):
    """How far a stop order has come."""

    #: The order was accepted, and applies to the job.
    ORDERED = "ORDERED"
    #: The checkpoint signal was first sent.
    CHECKPOINT_REQUESTED = "CHECKPOINT_REQUESTED"
    #: The final checkpoint was seen.
    CHECKPOINT_SEEN = "CHECKPOINT_SEEN"
    #: The stop signal was first delivered.
    SIGNALLED = "SIGNALLED"
    #: The order was forced.
    FORCED = "FORCED"
    #: A container was first killed.
    KILLED = "KILLED"


class Outcome(StrEnum):
    """The outcome of the order for one job. The last four change nothing."""

    #: A queued job was cancelled: it is FAILED.
    CANCELLED = "CANCELLED"
    #: A queued job was terminated: it is FAILED.
    TERMINATED = "TERMINATED"
    #: The job ends when its containers, or its children, have ended.
    STOPPING = "STOPPING"
    #: An active job was cancelled: its attempt continues, and is not retried if it fails.
    NOT_RETRIED = "NOT_RETRIED"
    #: A container of a task stops; the job and its other containers continue.
    CONTAINER_STOPPING = "CONTAINER_STOPPING"
    #: A container of a task was named, which cannot be stopped alone at present.
    REFUSED = "REFUSED"
    #: The job, or the container, had finished already.
    ALREADY_FINISHED = "ALREADY_FINISHED"
    #: The job was named, but does not match the filter.
    NOT_MATCHED = "NOT_MATCHED"
    #: The job was named, but does not exist, or the caller may not see it.
    NOT_FOUND = "NOT_FOUND"


class State(StrEnum):
    """Whether a queue accepts jobs, or an environment starts them. Running jobs are not affected."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"


class ServerState(StrEnum):
    """The state of the container engine and of the server's loops."""

    OK = "OK"
    #: The container engine does not answer, or another engine answers.
    AWAY = "AWAY"
    #: The data was restored from a backup: no job starts before `batchq leave-safe-mode`. Decision 0016.
    SAFE_MODE = "SAFE_MODE"
    #: The store, or a background loop, fails.
    FAILING = "FAILING"


class BudgetPeriod(StrEnum):
    """The time whose cost counts."""

    #: From the first job on.
    WHOLE = "WHOLE"
    #: The calendar month in UTC.
    MONTH = "MONTH"


class BudgetLimit(StrEnum):
    """The limits of a budget, the lower one first."""

    SOFT = "SOFT"
    HARD = "HARD"


class CostGroup(StrEnum):
    """What a cost report groups by."""

    ACCOUNT = "ACCOUNT"
    USER = "USER"
    QUEUE = "QUEUE"
    DEFINITION = "DEFINITION"


class CheckpointType(StrEnum):
    """Why a checkpoint was made."""

    #: The program made it by itself.
    AUTOMATIC = "automatic"
    #: The first one after a request to make one.
    MANUAL = "manual"
    #: The final checkpoint of a stop order.
    FINAL = "final"


class KeyState(StrEnum):
    """Whether requests signed with a key are accepted."""

    ACTIVE = "ACTIVE"
    DISABLED = "DISABLED"


class Role(StrEnum):
    """The role of a user on the whole server. A coordinator is not a role: `User.coordinates` names its accounts."""

    USER = "USER"
    OPERATOR = "OPERATOR"
    ADMIN = "ADMIN"


class EventKind(StrEnum):
    """What an event of a job is about: a status that the job entered, or another change."""

    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    RUNNABLE = "RUNNABLE"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    #: A step of an order to stop the job.
    STOP_ORDER = "STOP_ORDER"
    #: The job was held or paused, or was released or resumed.
    HOLD = "HOLD"
    #: The group of the job ended with it.
    GROUP_ENDED = "GROUP_ENDED"


class WebhookFormat(StrEnum):
    """The body of a webhook's requests."""

    #: Standard Webhooks: JSON with a signature.
    STANDARD = "STANDARD"
    SLACK = "SLACK"
    DISCORD = "DISCORD"
    NTFY = "NTFY"
    MATRIX = "MATRIX"


class WebhookState(StrEnum):
    """Whether a webhook delivers."""

    ENABLED = "ENABLED"
    #: The last try failed; it is repeated.
    RETRYING = "RETRYING"
    #: Nothing is delivered until the webhook is enabled.
    DISABLED = "DISABLED"


class DeliveryKind(StrEnum):
    """What a delivery of a webhook is about."""

    EVENT = "EVENT"
    #: An event for another time.
    AGAIN = "AGAIN"
    #: Events may be missing.
    GAP = "GAP"


class DeliveryVerdict(StrEnum):
    """How a try of a delivery ended."""

    DELIVERED = "DELIVERED"
    #: The endpoint does not accept the content.
    REJECTED = "REJECTED"
    #: The endpoint could not be reached, or does not work.
    FAILED = "FAILED"
    #: The endpoint wants no more events.
    GONE = "GONE"


def in_order(statuses: Iterable[Status]) -> tuple[Status, ...]:
    """The statuses in the order in which a job passes through them."""
    return tuple(sorted(statuses, key=list(Status).index))
