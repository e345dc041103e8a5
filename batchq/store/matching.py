"""What a store is asked for, one job at a time. `listing` says the same in SQL; one contract holds both."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from batchq.domain.access.accounts import Owner, Reach
from batchq.domain.bulk_stop import Selection
from batchq.domain.ids import DefinitionRef
from batchq.domain.job import FINISHED, QUEUED, Job, Status
from batchq.ports.catalog import NeedQuery
from batchq.ports.jobs import ChildQuery, Filter, JobQuery

ANY_REST = "*"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def reached(owner: Owner, reach: Reach | None) -> bool:
    """None reaches everything."""
    return reach is None or reach.has(owner)


def matches(job: Job, query: JobQuery) -> bool:
    return (
        job.child is None
        and job.spec.queue == query.queue
        and query.status in {None, _counts_as(job, query.over)}
        and (query.before is None or job.order < query.before)
        and reached(job.spec.owner, query.reach)
        and (query.filter is None or any(_passes(job, query.filter, value) for value in query.values))
    )


def needs(job: Job, query: NeedQuery) -> bool:
    return (
        job.child is None
        and any(need.resource == query.resource for need in job.spec.needs)
        and query.status in {None, _counts_as(job, query.over)}
        and (query.before is None or job.order < query.before)
        and reached(job.spec.owner, query.reach)
        and (query.name is None or _like(folded(job.spec.name), folded(query.name)))
    )


def _counts_as(job: Job, over: Collection[int]) -> Status:
    return Status.FAILED if job.status is Status.PENDING and job.order in over else job.status


def child_counts_as(job: Job, query: ChildQuery) -> Status:
    return Status.FAILED if query.over and job.status in QUEUED else job.status


def meant(job: Job, selection: Selection) -> bool:
    """But for its members, and for whether children are looked at."""
    owner = job.spec.owner
    return (
        job.status not in FINISHED
        and _among(job.status, selection.statuses)
        and (selection.names is None or any(_like(folded(job.spec.name), folded(it)) for it in selection.names))
        and _among(owner.user, selection.users)
        and _among(owner.account, selection.accounts)
        and _among(job.spec.queue, selection.queues)
        and _among(None if job.attempt is None else job.attempt.environment, selection.environments)
        and reached(owner, selection.reach)
    )


def _among(value: str | None, wanted: Collection[str] | None) -> bool:
    return wanted is None or value in wanted


def _passes(job: Job, by: Filter, value: str) -> bool:
    match by:
        case Filter.JOB_NAME:
            return _like(folded(job.spec.name), folded(value))
        case Filter.JOB_DEFINITION:
            return _defines(value, job.spec.definition)
        case Filter.BEFORE_CREATED_AT:
            moment = number(value)
            return moment is not None and milliseconds(job.created_at) < moment
        case Filter.AFTER_CREATED_AT:
            moment = number(value)
            return moment is not None and milliseconds(job.created_at) > moment
        case Filter.SHARE_IDENTIFIER:
            return job.spec.share_identifier == value


def _like(text: str, pattern: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith(ANY_REST) else text == pattern


def _defines(value: str, ref: DefinitionRef) -> bool:
    name, colon, revision = value.partition(":")
    if colon:
        return ref.name == name and ref.revision == number(revision)
    return _like(ref.name, value)


def folded(name: str) -> str:
    """The name without its case: equal for names that differ in nothing else."""
    return name.lower()


def number(text: str) -> int | None:
    """The whole number it says, if it says one that a database can hold."""
    if not (text.isascii() and text.isdigit()) or len(text) > len("9223372036854775807"):
        return None
    return min(int(text), 2**63 - 1)


def milliseconds(moment: datetime) -> int:
    """Since the epoch, whole ones, rounded down."""
    return (moment - EPOCH) // _MILLISECOND
