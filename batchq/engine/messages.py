"""The messages of the mailbox. They come from outside only; what follows inside a unit is applied in that unit.

`caller`: the user whose request the message carries, None for a message of the server's own. `answer` is resolved when
the unit of work that handled the message is saved, and gets the error otherwise.
"""

from asyncio import Future
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.bulk_stop import BulkStopOrder, Candidates, JobFilter, JobOutcome
from batchq.domain.container import Resources
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle.reconcile import Seen
from batchq.ports.jobs import SubmissionKey
from batchq.ports.runtime import EngineIdentity

UNKNOWN_ENGINE = EngineIdentity(id=None, time=None)


class Submit(Struct, frozen=True, kw_only=True):
    """SubmitJob. The answer is the new job, or the job of the same call when it was made before."""

    job_id: JobId
    spec: JobSpec
    tags: tuple[tuple[str, str], ...]
    #: What identifies a repetition of the call; None where the client marks no calls.
    key: SubmissionKey | None
    caller: Caller
    answer: Future[Job]


class JobEvent(Struct, frozen=True, kw_only=True):
    """An event of one job: news of its containers, or a request."""

    job_id: JobId
    event: on.Event
    caller: Caller | None = None
    #: None for news, which needs no answer.
    answer: Future[None] | None = None
    #: No request waits for what follows from it: it may be handled together with the next messages.
    low_priority: bool = False


class UpdateTags(Struct, frozen=True, kw_only=True):
    """TagResource or UntagResource of a job."""

    job_id: JobId
    change: Callable[[Job], Job]
    caller: Caller
    answer: Future[None]


class TimerFired(Struct, frozen=True, kw_only=True):
    """A timer of the job may be due."""

    job_id: JobId
    #: The container that was just inspected and runs; None when the clock fired the timer.
    seen_alive: Tag | None = None
    #: When that container began, by the engine's clock.
    began: datetime | None = None


class SurveyCompleted(Struct, frozen=True, kw_only=True):
    """The engine has listed its containers."""

    engine: EngineIdentity = UNKNOWN_ENGINE
    seen: tuple[Seen, ...]
    #: The containers that jobs were known to run when the survey began.
    expected: frozenset[Tag]
    #: What the engine's machine has in all.
    capacity: Resources
    #: Containers that began earlier did not survive a restart of the engine or of the machine; None: not known.
    lost_before: datetime | None = None


class Resume(Struct, frozen=True, kw_only=True):
    """An operator ends safe mode, in which restored data is held."""

    #: Whether containers that no job owns are removed; otherwise they are left alone.
    purge: bool
    #: Attempts are not looked for on the engine that they were placed on any more, but on the one that answers.
    new_engine: bool = False
    caller: Caller
    answer: Future[None]


class BulkStopRequest(Struct, frozen=True, kw_only=True):
    """Cancel or terminate many jobs. The answer comes when it is durable which jobs are selected."""

    order: BulkStopOrder
    selection: JobFilter
    #: `Job.order` of the next job at the time of the request.
    as_of: int
    #: Called with the outcomes of some jobs, again and again, and with None at the end.
    report: Callable[[tuple[JobOutcome, ...] | None], None]
    #: The jobs that were selected before the turn; None: the commit selects among all jobs.
    candidates: Candidates | None = None
    #: Otherwise the request is refused as Outdated when too many jobs have changed since `candidates` were read.
    final: bool = True
    caller: Caller
    answer: Future[None]


class EngineLost(Struct, frozen=True, kw_only=True):
    """The container engine does not answer. Nothing is placed until it does."""


class CatalogChanged(Struct, frozen=True, kw_only=True):
    """A queue, an environment, a policy, a resource or an account changed."""


class ContinueWork(Struct, frozen=True, kw_only=True):
    """The last unit of work reached one of its limits and left work for the next one."""


class SearchQueues(Struct, frozen=True, kw_only=True):
    """Read more of the jobs behind blocked heads: a unit of work reads only some."""


Message = (
    Submit
    | JobEvent
    | UpdateTags
    | TimerFired
    | SurveyCompleted
    | Resume
    | BulkStopRequest
    | EngineLost
    | CatalogChanged
    | ContinueWork
    | SearchQueues
)


_Asked = (Submit, JobEvent, UpdateTags, Resume, BulkStopRequest)


def caller_of(message: Message) -> Caller | None:
    return message.caller if isinstance(message, _Asked) else None
