"""What can happen to a job: facts, in the past tense. Used as `on.ContainerExited`."""

from datetime import datetime, timedelta
from typing import TypeGuard, get_args

from msgspec import Struct

from batchq.domain import status_reasons
from batchq.domain.ids import JobId


class DependenciesPending(Struct, frozen=True, kw_only=True):
    """At least one dependency has not ended yet."""


class DependenciesMet(Struct, frozen=True, kw_only=True):
    """Every dependency has SUCCEEDED, or there are none."""


class DependencyFailed(Struct, frozen=True, kw_only=True):
    """The dependency `job_id` has FAILED, or is no longer known."""

    job_id: JobId

    @property
    def reason(self) -> str:
        return status_reasons.dependency_failed(self.job_id)


class FoundInvalid(Struct, frozen=True, kw_only=True):
    """AWS: such a job is taken, and then FAILED, for a reason its container service has."""

    reason: str


class FoundMisfit(Struct, frozen=True, kw_only=True):
    """No environment of the job's queue could ever hold it."""

    reason: str


class FoundFitting(Struct, frozen=True, kw_only=True):
    """An environment that can hold the job has come; it may be placed again."""


class FoundBlocked(Struct, frozen=True, kw_only=True):
    """It is the first of its queue, and there is no room for it now.

    `promise`: by when at the latest it starts, None where that is not known.
    """

    reason: str
    promise: datetime | None = None


class BlockedTooLong(Struct, frozen=True, kw_only=True):
    """AWS: a jobStateTimeLimitAction of its queue cancels it."""

    reason: str


class Placed(Struct, frozen=True, kw_only=True):
    """Room was found and reserved on an environment."""

    environment: str


class ContainerCreated(Struct, frozen=True, kw_only=True):
    """It was made, and has this id at the engine. It is started when that is saved, and not before."""

    attempt: int
    part: str = ""
    container: str
    #: Host paths of its mounts that did not exist and were created for it.
    created_host_paths: tuple[str, ...] = ()


class ContainerStarted(Struct, frozen=True, kw_only=True):
    """`address` is its node's on the attempt's own network, where it has one."""

    attempt: int
    part: str = ""
    started_at: datetime
    address: str | None = None


class StartFailed(Struct, frozen=True, kw_only=True):
    """The engine said definitely that the container cannot start, or its image cannot be had.

    `forbidden`: what the job asks for is not allowed to it, so no other attempt is made.
    """

    attempt: int
    part: str = ""
    reason: str
    exit_code: int | None = None
    forbidden: bool = False


class StartAbandoned(Struct, frozen=True, kw_only=True):
    """A start was given up before the engine was asked to start it, because a stop had been ordered."""

    attempt: int
    part: str = ""


class ContainerExited(Struct, frozen=True, kw_only=True):
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


class ContainerLost(Struct, frozen=True, kw_only=True):
    """The container was there and no longer is, or is in a state that cannot be."""

    attempt: int
    part: str = ""
    reason: str = status_reasons.DISAPPEARED


class StopAsked(Struct, frozen=True, kw_only=True):
    """The stop signal was delivered. The grace counts from here."""

    attempt: int
    part: str = ""


class TimedOut(Struct, frozen=True, kw_only=True):
    attempt: int


class GraceExpired(Struct, frozen=True, kw_only=True):
    attempt: int
    part: str = ""


class StartTimedOut(Struct, frozen=True, kw_only=True):
    """A container did not reach in time what others of its task wait for."""

    attempt: int
    part: str


class CancelRequested(Struct, frozen=True, kw_only=True):
    """`node`: the request named one node of a gang."""

    reason: str
    node: int | None = None


class TerminateRequested(Struct, frozen=True, kw_only=True):
    """`grace` None is the job's own, `signal` None the image's. `node`: the request named one node of a gang."""

    reason: str
    grace: timedelta | None = None
    node: int | None = None
    signal: str | None = None


class ForceFailed(Struct, frozen=True, kw_only=True):
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
