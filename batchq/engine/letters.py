"""What can lie in the inbox. Letters come from outside only; what follows inside a turn is applied in that turn.

`caller`: the user whose request the message carries, None for a message of the server's own.
"""

from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from batchq.domain import events as on
from batchq.domain.container import Resources
from batchq.domain.job import Job, JobSpec
from batchq.domain.names import JobId, Tag
from batchq.domain.people import Caller
from batchq.domain.recovery import Seen
from batchq.domain.replacing import quick
from batchq.domain.sweep import Candidates, Selection, SweepOrder, Told
from batchq.values import EngineIdentity, SubmissionKey

UNKNOWN_ENGINE = EngineIdentity(id=None, time=None)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A new job, whoever asks for it. The answer is the job, or the one that the same call made before."""

    job_id: JobId
    spec: JobSpec
    tags: tuple[tuple[str, str], ...]
    key: SubmissionKey | None
    caller: Caller
    answer: Future[Job]


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Something happened to a job. News from the outside wants no answer; a request's comes once it is durable.

    `at_leisure`: nothing follows from it that anybody waits for.
    """

    job_id: JobId
    event: on.Event
    caller: Caller | None = None
    answer: Future[None] | None = None
    at_leisure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend:
    """A change of what is said of a job, not of its life."""

    job_id: JobId
    change: Callable[[Job], Job]
    caller: Caller
    answer: Future[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A job's alarm went off, or may have: this container of it has just been `seen_alive`."""

    job_id: JobId
    seen_alive: Tag | None = None
    #: When that container began, as the engine stamped it.
    began: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """The engine answered: what containers there are, and what its machine has.

    Those that began before `lost_before` have not outlived the engine, or the machine.
    """

    engine: EngineIdentity = UNKNOWN_ENGINE
    seen: tuple[Seen, ...]
    expected: frozenset[Tag]
    capacity: Resources
    lost_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """An operator lets restored data go on. `purge`: containers that no job owns are cleared away, else left alone."""

    purge: bool
    #: Attempts are not looked for on the engine that they were placed on any more, but on the one that answers.
    new_engine: bool = False
    caller: Caller
    answer: Future[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepJobs:
    """Many jobs are to be stopped. The answer comes once it is durable which.

    `hear` is called with what became of them, as they are told, and with None at the end. `as_of`: the order that the
    next job was to have when it was asked. Without `candidates` the commit chooses among all jobs.
    Unless `final` it is refused as Outdated when too many jobs have changed since they were read.
    """

    order: SweepOrder
    selection: Selection
    as_of: int
    hear: Callable[[tuple[Told, ...] | None], None]
    candidates: Candidates | None = None
    final: bool = True
    caller: Caller
    answer: Future[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLost:
    """The engine does not answer. Nothing is placed until it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundChanged:
    """Queues or environments are not what they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreToDo:
    """The last turn did as much as one turn may, and there is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQueues:
    """Look at more of the jobs behind blocked heads: a turn looks at few."""


Letter = (
    Submit
    | Deliver
    | Amend
    | Ring
    | Surveyed
    | Resume
    | SweepJobs
    | EngineLost
    | GroundChanged
    | MoreToDo
    | SearchQueues
)


_Asked = (Submit, Deliver, Amend, Resume, SweepJobs)


def caller_of(letter: Letter) -> Caller | None:
    return letter.caller if isinstance(letter, _Asked) else None
