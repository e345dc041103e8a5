"""ListJobs to queries of the store."""

import re

from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.translate import job_queues
from batchq.api.batch.wire.jobs import KeyValuesPair, ListJobs
from batchq.api.page_tokens import TokenQuery
from batchq.domain.ids import JobId
from batchq.domain.job import Status
from batchq.errors import Invalid
from batchq.ports.jobs import ChildQuery, Filter, JobQuery

MOST = 1000  # jobs on a page
MOST_FILTERED = 100  # jobs on a page, with a filter
MOST_VALUES = 100

_MILLISECONDS = re.compile(r"[0-9]{1,19}")


def query(given: ListJobs, arns: BatchArns) -> JobQuery:
    """The query for the first page of a queue's jobs. Raises Invalid, and NotFound.

    AWS: without a filter the default status is RUNNING. A filter selects jobs of every status, whatever jobStatus is;
    only SHARE_IDENTIFIER can be combined with one.
    """
    by, values = _filter(given.filters or [], arns)
    return JobQuery(
        queue=job_queues.name_of(given.jobQueue or "", arns),
        status=status(given, by),
        filter=by,
        values=values,
        limit=limit(given, by),
    )


def children(given: ListJobs, arns: BatchArns) -> ChildQuery:
    """The query for the first page of an array's children. AWS: filters are ignored."""
    return ChildQuery(parent=job_named(given.arrayJobId or "", arns), status=status(given), limit=limit(given))


def token_query(asked: JobQuery | ChildQuery) -> TokenQuery:
    if isinstance(asked, ChildQuery):
        return "ListJobs", "array", asked.parent, asked.status
    return "ListJobs", "queue", asked.queue, asked.status, asked.filter, asked.values


def job_named(text: str, arns: BatchArns) -> JobId:
    """The id in an id or ARN of a job; empty for an ARN of something else, so that the list is empty.

    Raises Invalid for an ARN of another account.
    """
    return JobId(arns.named(ArnKind.JOB, text) or "")


def limit(given: ListJobs, by: Filter | None = None) -> int:
    """The number of jobs on a page."""
    most = MOST if by is None else MOST_FILTERED
    return min(given.maxResults or most, most)


def check_selector(given: ListJobs) -> None:
    named = [it for it in (given.jobQueue, given.arrayJobId, given.multiNodeJobId) if it]
    if len(named) != 1:
        raise Invalid("Exactly one of jobQueue, arrayJobId and multiNodeJobId must be specified.")


def status(given: ListJobs, by: Filter | None = None) -> Status | None:
    """The status to list; None: every status. Raises Invalid."""
    text = given.jobStatus
    if text and text not in set(Status):
        raise Invalid(f"Job status is not one of {' | '.join(Status)}")
    if by not in {None, Filter.SHARE_IDENTIFIER}:
        return None
    if text:
        return Status(text)
    return Status.RUNNING if by is None else None


def _filter(given: list[KeyValuesPair], arns: BatchArns) -> tuple[Filter | None, tuple[str, ...]]:
    if not given:
        return None, ()
    if len(given) > 1:
        raise Invalid("Only one filter key-value pair can be specified.")
    name, values = given[0].name, given[0].values or []
    if name not in set(Filter):
        raise Invalid(f"The name of a filter must be one of {', '.join(Filter)}.")
    if not values:
        raise Invalid(f"The filter {name} must have a value.")
    if len(values) > MOST_VALUES:
        raise Invalid(f"The filter {name} must have at most {MOST_VALUES} values.")
    by = Filter(name)
    return by, tuple(_value(by, value, arns) for value in values)


def _value(by: Filter, text: str, arns: BatchArns) -> str:
    if by in {Filter.BEFORE_CREATED_AT, Filter.AFTER_CREATED_AT} and not _MILLISECONDS.fullmatch(text):
        raise Invalid(f"The value of the filter {by} must be milliseconds since 1970.")
    if by is not Filter.JOB_DEFINITION:
        return text
    name = arns.named(ArnKind.DEFINITION, text)
    if name is None or (name != text and "*" in name):
        raise Invalid(f"{text} is not the ARN of a job definition.")
    return name
