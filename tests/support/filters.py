"""Filters of jobs as predicates: the specification that the SQL of lists and bulk stops is compared with."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from batchq.domain.access.accounts import Visibility
from batchq.domain.bulk_stop import WHOLE, JobFilter, Target, has_children
from batchq.domain.ids import DefinitionRef, JobId
from batchq.domain.job import FINISHED, QUEUED, Job, Status
from batchq.domain.times import milliseconds
from batchq.ports.catalog import NeedQuery
from batchq.ports.job_search import JobSearchQuery, SearchOrder
from batchq.ports.jobs import Filter, JobQuery
from batchq.store.rows import lower_case, parse_integer


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
        and (selection.created_before is None or milliseconds(job.created_at) < selection.created_before)
        and (selection.names is None or any(_like_folded(job.spec.name, it) for it in selection.names))
        and visible(owner, selection.visibility)
    )


def searched(jobs: Iterable[Job], query: JobSearchQuery, ends: Mapping[JobId, datetime]) -> tuple[Job, ...]:
    """All jobs that a search finds, in its order. `ends`: when each finished job ended."""
    found = [(_end_of(it, query, ends), it) for it in jobs if _is_searched(it, query) and _is_in_time(it, query, ends)]
    if query.order_by is SearchOrder.CREATED:
        return tuple(it for _, it in sorted(found, key=lambda each: each[1].order, reverse=True))
    ended = [(at, it.order, it) for at, it in found if at is not None]
    return tuple(it for _, _, it in sorted(ended, reverse=True, key=lambda each: each[:2]))


def _is_searched(job: Job, query: JobSearchQuery) -> bool:
    spec, child, prefix = job.spec, job.child, query.id_prefix or ""
    members = query.children or query.ids is not None or query.parent is not None or ":" in prefix
    wanted = (
        (query.statuses, _shown_status(job, query)),
        (query.queues, spec.queue),
        (query.users, spec.owner.user),
        (query.accounts, spec.owner.account),
        (query.shares, spec.share_identifier),
        (query.ids, job.id),
        (query.exit_codes, job.latest_attempt and job.latest_attempt.exit_code),
        (query.environments, None if job.attempt is None else job.attempt.environment),
        (query.parent and {query.parent}, child and child.parent),
    )
    return (
        (child is None or members)
        and (not query.held or (job.held and _shown_status(job, query) in QUEUED))
        and all(values is None or value in values for values, value in wanted)
        and job.id.startswith(prefix)
        and (query.definitions is None or any(_defines(it, spec.definition) for it in query.definitions))
        and (query.names is None or any(_like_part(spec.name, it) for it in query.names))
        and visible(spec.owner, query.visibility)
    )


def _is_in_time(job: Job, query: JobSearchQuery, ends: Mapping[JobId, datetime]) -> bool:
    end, created = _end_of(job, query, ends), milliseconds(job.created_at)
    by_end = query.order_by is SearchOrder.ENDED or query.ended_after is not None or query.ended_before is not None
    if by_end and (end is None or _shown_status(job, query) not in FINISHED):
        return False
    ended = 0 if end is None else milliseconds(end)
    return (
        (query.created_after is None or created > query.created_after)
        and (query.created_before is None or created < query.created_before)
        and (query.ended_after is None or ended > query.ended_after)
        and (query.ended_before is None or ended < query.ended_before)
    )


def _shown_status(job: Job, query: JobSearchQuery) -> Status:
    """Decision 0027: arrays and queued children that an order has ended count as FAILED."""
    if job.status is Status.PENDING and job.order in query.ended_arrays:
        return Status.FAILED
    of_stopped = job.child is not None and job.order - 1 - job.child.index in query.stopped_arrays
    return Status.FAILED if of_stopped and job.status in QUEUED else job.status


def _end_of(job: Job, query: JobSearchQuery, ends: Mapping[JobId, datetime]) -> datetime | None:
    return query.ended_arrays.get(job.order) if job.status is Status.PENDING else ends.get(job.id)


def _like_part(text: str, pattern: str) -> bool:
    text, pattern = lower_case(text), lower_case(pattern)
    if not pattern.startswith("*"):
        return _like(text, pattern)
    inner = pattern.removeprefix("*")
    return inner.removesuffix("*") in text if inner.endswith("*") or not inner else text.endswith(inner)
