"""Filters of jobs as predicates: the specification that the SQL of lists and bulk stops is compared with."""

from collections.abc import Iterable, Iterator, Mapping

from batchq.domain.access.accounts import Visibility
from batchq.domain.bulk_stop import WHOLE, JobFilter, Target, has_children
from batchq.domain.ids import DefinitionRef, JobId
from batchq.domain.job import FINISHED, Job, Status
from batchq.ports.catalog import NeedQuery
from batchq.ports.jobs import Filter, JobQuery
from batchq.store.rows import lower_case, milliseconds, parse_integer


def listed(jobs: Iterable[Job], query: JobQuery) -> tuple[Job, ...]:
    """The answer to ListJobs."""
    return _newest((it for it in jobs if it.spec.queue == query.queue and _passes(it, query)), query)


def listed_needing(jobs: Iterable[Job], query: NeedQuery) -> tuple[Job, ...]:
    """The answer to ListJobsByConsumableResource."""
    needing = (it for it in jobs if any(need.resource == query.resource for need in it.spec.needs))
    return _newest((it for it in needing if query.name is None or _like_folded(it.spec.name, query.name)), query)


def visible(owner, visibility: Visibility | None) -> bool:
    return visibility is None or visibility.has(owner)


def selected(jobs: Mapping[JobId, Job], selection: JobFilter) -> dict[Target, Job]:
    """The targets of a bulk stop, in the order of submission."""
    found = {
        (job.order, node): job
        for job, node in _members(jobs, selection)
        if _is_selected(job, selection) and not (selection.by_child and has_children(job))
    }
    return {target: found[target] for target in sorted(found)}


def _newest(jobs: Iterable[Job], query: JobQuery | NeedQuery) -> tuple[Job, ...]:
    found = (
        it
        for it in jobs
        if it.child is None
        and query.status in {None, _counts_as(it, query.ended_arrays)}
        and (query.before is None or it.order < query.before)
        and visible(it.spec.owner, query.visibility)
    )
    return tuple(sorted(found, key=lambda it: it.order, reverse=True)[: query.limit])


def _counts_as(job: Job, over: frozenset[int]) -> Status:
    return Status.FAILED if job.status is Status.PENDING and job.order in over else job.status


def _passes(job: Job, query: JobQuery) -> bool:
    return query.filter is None or any(_matches(job, query.filter, value) for value in query.values)


def _matches(job: Job, by: Filter, value: str) -> bool:
    match by:
        case Filter.JOB_NAME:
            return _like_folded(job.spec.name, value)
        case Filter.JOB_DEFINITION:
            return _defines(value, job.spec.definition)
        case Filter.BEFORE_CREATED_AT:
            moment = parse_integer(value)
            return moment is not None and milliseconds(job.created_at) < moment
        case Filter.AFTER_CREATED_AT:
            moment = parse_integer(value)
            return moment is not None and milliseconds(job.created_at) > moment
        case Filter.SHARE_IDENTIFIER:
            return job.spec.share_identifier == value


def _defines(value: str, ref: DefinitionRef) -> bool:
    name, colon, revision = value.partition(":")
    return ref.name == name and ref.revision == parse_integer(revision) if colon else _like(ref.name, value)


def _like_folded(text: str, pattern: str) -> bool:
    return _like(lower_case(text), lower_case(pattern))


def _like(text: str, pattern: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _members(jobs: Mapping[JobId, Job], selection: JobFilter) -> Iterator[tuple[Job, int]]:
    if selection.members is None:
        yield from ((job, WHOLE) for job in jobs.values() if selection.by_child or job.child is None)
        return
    named = {job_id for job_id, _ in selection.members}
    yield from ((jobs[it], WHOLE if node is None else node) for it, node in selection.members if it in jobs)
    if selection.by_child:
        yield from ((it, WHOLE) for it in jobs.values() if it.child is not None and it.child.parent in named)


def _is_selected(job: Job, selection: JobFilter) -> bool:
    owner, attempt = job.spec.owner, job.attempt
    wanted = (
        (selection.statuses, job.status),
        (selection.users, owner.user),
        (selection.accounts, owner.account),
        (selection.queues, job.spec.queue),
        (selection.environments, None if attempt is None else attempt.environment),
    )
    return (
        job.status not in FINISHED
        and all(values is None or value in values for values, value in wanted)
        and (selection.names is None or any(_like_folded(job.spec.name, it) for it in selection.names))
        and visible(owner, selection.visibility)
    )
