"""What can happen to a job: facts, in the past tense. Used as `on.ContainerExited`."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeGuard, get_args

from batchq.domain import reasons
from batchq.domain.names import JobId
from batchq.domain.replacing import quick


@dataclass(frozen=True, slots=True, kw_only=True)
class DependenciesPending:
    """At least one dependency has not ended yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependenciesMet:
    """Every dependency has SUCCEEDED, or there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyFailed:
    """The dependency `job_id` has FAILED, or is no longer known."""

    job_id: JobId

    @property
    def reason(self) -> str:
        return reasons.dependency_failed(self.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInvalid:
    """AWS: such a job is taken, and then FAILED, for a reason its container service has."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMisfit:
    """No environment of the job's queue could ever hold it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFitting:
    """An environment that can hold the job has come; it may be placed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBlocked:
    """It is the first of its queue, and there is no room for it now.

    `promise`: by when at the latest it starts, None where that is not known.
    """

    reason: str
    promise: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedTooLong:
    """AWS: a jobStateTimeLimitAction of its queue cancels it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Room was found and reserved on an environment."""

    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCreated:
    """It was made, and has this id at the engine. It is started when that is saved, and not before."""

    attempt: int
    part: str = ""
    container: str
    #: Host paths of its mounts that did not exist and were created for it.
    created_host_paths: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStarted:
    """`address` is its node's on the attempt's own network, where it has one."""

    attempt: int
    part: str = ""
    started_at: datetime
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """The engine said definitely that the container cannot start, or its image cannot be had.

    `forbidden`: what the job asks for is not allowed to it, so no other attempt is made.
    """

    attempt: int
    part: str = ""
    reason: str
    exit_code: int | None = None
    forbidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAbandoned:
    """A start was given up before the engine was asked to start it, because a stop had been ordered."""

    attempt: int
    part: str = ""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExited:
    """The container ran and is over; code, memory verdict and times as inspected.

    `host_lost`: the engine or the machine went down, and it with them.
    """

    attempt: int
    part: str = ""
    exit_code: int
    started_at: datetime
    stopped_at: datetime
    out_of_memory: bool = False
    host_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLost:
    """The container was there and no longer is, or is in a state that cannot be."""

    attempt: int
    part: str = ""
    reason: str = reasons.DISAPPEARED


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """The stop signal was delivered. The grace counts from here."""

    attempt: int
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceExpired:
    attempt: int
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimedOut:
    """A container did not reach in time what others of its task wait for."""

    attempt: int
    part: str


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """`node`: the request named one node of a gang."""

    reason: str
    node: int | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateRequested:
    """`grace` None is the job's own, `signal` None the image's. `node`: the request named one node of a gang."""

    reason: str
    grace: timedelta | None = None
    node: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceFailed:
    """An operator gives up its container, which does not end."""

    reason: str


News = (
    ContainerCreated
    | ContainerStarted
    | StartFailed
    | StartAbandoned
    | ContainerExited
    | ContainerLost
    | StopAsked
    | TimedOut
    | GraceExpired
    | StartTimedOut
)
Event = (
    DependenciesPending
    | DependenciesMet
    | DependencyFailed
    | FoundInvalid
    | FoundMisfit
    | FoundFitting
    | FoundBlocked
    | BlockedTooLong
    | Placed
    | News
    | CancelRequested
    | TerminateRequested
    | ForceFailed
)

_NEWS = frozenset(get_args(News))


def is_news(event: Event) -> TypeGuard[News]:
    """Whether it tells of an attempt. To ask a union of ten kinds takes ten times as long."""
    return type(event) in _NEWS
