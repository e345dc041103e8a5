"""What can lie in the inbox. Letters come from outside only; what follows inside a turn is applied in that turn.

`caller`: the user whose request the message carries, None for a message of the server's own.
"""

from asyncio import Future
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.bulk_stop import Candidates, JobOutcome, Selection, SweepOrder
from batchq.domain.container import Resources
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.reconcile import Seen
from batchq.ports.jobs import SubmissionKey
from batchq.ports.runtime import EngineIdentity

UNKNOWN_ENGINE = EngineIdentity(id=None, time=None)


class Submit(Struct, frozen=True, kw_only=True):
    """A new job, whoever asks for it. The answer is the job, or the one that the same call made before."""

    job_id: JobId
    spec: JobSpec
    tags: tuple[tuple[str, str], ...]
    key: SubmissionKey | None
    caller: Caller
    answer: Future[Job]


class Deliver(Struct, frozen=True, kw_only=True):
    """Something happened to a job. News from the outside wants no answer; a request's comes once it is durable.

    `at_leisure`: nothing follows from it that anybody waits for.
    """

    job_id: JobId
    event: on.Event
    caller: Caller | None = None
    answer: Future[None] | None = None
    at_leisure: bool = False


class Amend(Struct, frozen=True, kw_only=True):
    """A change of what is said of a job, not of its life."""

    job_id: JobId
    change: Callable[[Job], Job]
    caller: Caller
    answer: Future[None]


class Ring(Struct, frozen=True, kw_only=True):
    """A job's alarm went off, or may have: this container of it has just been `seen_alive`."""

    job_id: JobId
    seen_alive: Tag | None = None
    #: When that container began, as the engine stamped it.
    began: datetime | None = None


class Surveyed(Struct, frozen=True, kw_only=True):
    """The engine answered: what containers there are, and what its machine has.

    Those that began before `lost_before` have not outlived the engine, or the machine.
    """

    engine: EngineIdentity = UNKNOWN_ENGINE
    seen: tuple[Seen, ...]
    expected: frozenset[Tag]
    capacity: Resources
    lost_before: datetime | None = None


class Resume(Struct, frozen=True, kw_only=True):
    """An operator lets restored data go on. `purge`: containers that no job owns are cleared away, else left alone."""

    purge: bool
    #: Attempts are not looked for on the engine that they were placed on any more, but on the one that answers.
    new_engine: bool = False
    caller: Caller
    answer: Future[None]


class SweepJobs(Struct, frozen=True, kw_only=True):
    """Many jobs are to be stopped. The answer comes once it is durable which.

    `hear` is called with what became of them, as they are told, and with None at the end. `as_of`: the order that the
    next job was to have when it was asked. Without `candidates` the commit chooses among all jobs.
    Unless `final` it is refused as Outdated when too many jobs have changed since they were read.
    """

    order: SweepOrder
    selection: Selection
    as_of: int
    hear: Callable[[tuple[JobOutcome, ...] | None], None]
    candidates: Candidates | None = None
    final: bool = True
    caller: Caller
    answer: Future[None]


class EngineLost(Struct, frozen=True, kw_only=True):
    """The engine does not answer. Nothing is placed until it does."""


class GroundChanged(Struct, frozen=True, kw_only=True):
    """Queues or environments are not what they were."""


class MoreToDo(Struct, frozen=True, kw_only=True):
    """The last turn did as much as one turn may, and there is more."""


class SearchQueues(Struct, frozen=True, kw_only=True):
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
