"""The codes of explanations, and the shape of the table's rows. Pure."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from batchq.domain.enums import Status

#: A figure of an explanation: a datetime or a number, text, or lists and objects of them.
Fact = str | int | float | bool | datetime | tuple["Fact", ...] | Mapping[str, "Fact"]
Facts = Mapping[str, Fact]

QUEUED = (Status.SUBMITTED, Status.PENDING, Status.RUNNABLE)
UNPLACED = (Status.RUNNABLE, Status.STARTING)
#: The facts of a stop order.
STOP_FACTS = (
    "kind",
    "user",
    "reason",
    "orderedAt",
    "checkpointRequestedAt",
    "checkpointSeenAt",
    "signalledAt",
    "nextStepAt",
    "forcedAt",
    "killedAt",
)


class Code(StrEnum):
    """What a job waits for, does, or failed of."""

    # SUBMITTED and PENDING
    SUBMITTED = "SUBMITTED"
    DEPENDENCIES = "DEPENDENCIES"
    NOT_CREATED = "NOT_CREATED"
    CHILDREN = "CHILDREN"
    CHILDREN_STOPPING = "CHILDREN_STOPPING"
    # The server cannot start jobs
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    SAFE_MODE = "SAFE_MODE"
    ENGINE_CHANGED = "ENGINE_CHANGED"
    ENGINE_UNAVAILABLE = "ENGINE_UNAVAILABLE"
    # Held by a user
    HELD = "HELD"
    PAUSED = "PAUSED"
    # RUNNABLE
    STOP_PENDING = "STOP_PENDING"
    QUEUE_DRAINED = "QUEUE_DRAINED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    NO_ENVIRONMENT = "NO_ENVIRONMENT"
    TOO_MANY_VCPUS = "TOO_MANY_VCPUS"
    TOO_LARGE = "TOO_LARGE"
    ABOVE_ACCOUNT_LIMIT = "ABOVE_ACCOUNT_LIMIT"
    RESOURCE_MISSING = "RESOURCE_MISSING"
    TOO_MANY_UNITS = "TOO_MANY_UNITS"
    ACCOUNT_LIMIT = "ACCOUNT_LIMIT"
    RESERVED_FOR_SHARES = "RESERVED_FOR_SHARES"
    RESERVED_FOR_OTHERS = "RESERVED_FOR_OTHERS"
    WAITS_FOR_VCPUS = "WAITS_FOR_VCPUS"
    WAITS_FOR_MEMORY = "WAITS_FOR_MEMORY"
    WAITS_FOR_GPUS = "WAITS_FOR_GPUS"
    WAITS_FOR_UNITS = "WAITS_FOR_UNITS"
    RETRY = "RETRY"
    SHARE_TURN = "SHARE_TURN"
    IN_LINE = "IN_LINE"
    NEXT = "NEXT"
    # STARTING
    PULLING_IMAGE = "PULLING_IMAGE"
    CLEANING_UP = "CLEANING_UP"
    HOST_FAILURE = "HOST_FAILURE"
    START_REFUSED = "START_REFUSED"
    CREATING_CONTAINER = "CREATING_CONTAINER"
    STARTING_CONTAINERS = "STARTING_CONTAINERS"
    ABANDONING_START = "ABANDONING_START"
    # RUNNING
    RUNNING = "RUNNING"
    NO_RETRY = "NO_RETRY"
    STOPPING = "STOPPING"
    TIME_LIMIT = "TIME_LIMIT"
    NOT_EXITING = "NOT_EXITING"
    # FAILED
    EXIT_CODE = "EXIT_CODE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    TIMED_OUT = "TIMED_OUT"
    IMAGE_UNAVAILABLE = "IMAGE_UNAVAILABLE"
    NOT_STARTED = "NOT_STARTED"
    FORBIDDEN = "FORBIDDEN"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    CHILD_FAILED = "CHILD_FAILED"
    HOST_LOST = "HOST_LOST"
    CONTAINER_LOST = "CONTAINER_LOST"
    CANCELLED = "CANCELLED"
    TERMINATED = "TERMINATED"
    BLOCKED_TOO_LONG = "BLOCKED_TOO_LONG"
    FORCE_FAILED = "FORCE_FAILED"
    INVALID = "INVALID"
    UNREADABLE = "UNREADABLE"
    # SUCCEEDED
    SUCCEEDED = "SUCCEEDED"


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a job is where it is, for one reader."""

    code: Code
    #: One or more sentences with figures. Names that the reader may not see are replaced.
    sentence: str
    #: Since when this is so; None: not known.
    since: datetime | None
    #: The figures by name, those of the code's row. Names that the reader may not see are absent.
    facts: Facts


class Row(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    statuses: tuple[Status, ...]
    #: When the row applies.
    applies: str
    #: The alternatives of the first sentence. The last one needs no words that may be unknown.
    sentences: tuple[str, ...]
    #: Further sentences.
    more: tuple[str, ...] = ()
    #: The names of the facts that an explanation may have.
    facts: tuple[str, ...] = ()
