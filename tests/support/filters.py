"""Filters of jobs as predicates: the specification that the SQL of lists and bulk stops is compared with."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec.structs import replace

from batchq.domain.access.accounts import Visibility
from batchq.domain.bulk_stop import WHOLE, Target, has_children
from batchq.domain.enums import FINISHED, QUEUED, Status, StopKind
from batchq.domain.ids import DefinitionRef, JobId, node_of
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.times import milliseconds
from batchq.ports.catalog import NeedQuery
from batchq.ports.job_search import PageQuery, SearchOrder
from batchq.store.rows import parse_integer


def listed_needing(jobs: Iterable[Job], query: NeedQuery) -> tuple[Job, ...]:
    """The answer to ListJobsByConsumableResource."""
    needing = (job for job in jobs if any(need.resource == query.resource for need in job.spec.needs))
    found = (
        job
        for job in needing
        if job.child is None
        and (query.name is None or _like(job.spec.name.lower(), query.name.lower()))
        and query.status in {None, _counts_as(job, query.ended_arrays)}
        and (query.before is None or job.sequence < query.before)
        and visible(job.spec.owner, query.visibility)
    )
    return tuple(sorted(found, key=lambda value: value.sequence, reverse=True)[: query.limit])


def visible(owner, visibility: Visibility | None) -> bool:
    return visibility is None or visibility.has(owner)


def selected(jobs: Mapping[JobId, Job], selection: JobSelection) -> dict[Target, Job]:
    """The targets of a bulk stop, in the order of submission."""
    found = {
        (job.sequence, node): job
        for job, node in _members(jobs, selection)
        if _is_selected(job, selection) and not (selection.compares_children and has_children(job))
    }
    return {target: found[target] for target in sorted(found)}


def _counts_as(job: Job, over: frozenset[int]) -> Status:
    return Status.FAILED if job.status is Status.PENDING and job.sequence in over else job.status


def _defines(value: str, ref: DefinitionRef) -> bool:
    name, colon, revision = value.partition(":")
    return ref.name == name and ref.revision == parse_integer(revision) if colon else _like(ref.name, value)


def _like(text: str, pattern: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _members(jobs: Mapping[JobId, Job], selection: JobSelection) -> Iterator[tuple[Job, int]]:
    if selection.ids is None:
        yield from ((job, WHOLE) for job in jobs.values())
        return
    named = {node_of(identifier) for identifier in selection.ids}
    yield from ((jobs[job_id], WHOLE if node is None else node) for job_id, node in named if job_id in jobs)
    if selection.compares_children:
        arrays = {job_id for job_id, _ in named}
        yield from ((job, WHOLE) for job in jobs.values() if job.child is not None and job.child.parent in arrays)


def _is_selected(job: Job, selection: JobSelection) -> bool:
    compared = replace(selection, ids=None, children=selection.compares_children or selection.ids is not None)
    query = PageQuery(selection=compared, limit=1)
    return job.status not in FINISHED and _is_searched(job, query) and _is_in_time(job, query, {})


def searched(jobs: Iterable[Job], query: PageQuery, ends: Mapping[JobId, datetime]) -> tuple[Job, ...]:
    """All jobs that a search finds, in its order. `ends`: when each finished job ended."""
    found = [
        (_end_of(job, query, ends), job) for job in jobs if _is_searched(job, query) and _is_in_time(job, query, ends)
    ]
    if query.order_by is SearchOrder.CREATED:
        return tuple(job for _, job in sorted(found, key=lambda each: each[1].sequence, reverse=True))
    ended = [(at, job.sequence, job) for at, job in found if at is not None]
    return tuple(job for _, _, job in sorted(ended, reverse=True, key=lambda each: each[:2]))


def _is_searched(job: Job, query: PageQuery) -> bool:
    wanted, spec, child = query.selection, job.spec, job.child
    prefix = wanted.id_prefix or ""
    members = wanted.children or wanted.ids is not None or wanted.parent is not None or ":" in prefix
    compared = (
        (wanted.statuses, _shown_status(job, query)),
        (wanted.queues, spec.queue),
        (wanted.users, spec.owner.user),
        (wanted.accounts, spec.owner.account),
        (wanted.shares, spec.share_identifier),
        (wanted.ids, job.id),
        (wanted.groups, spec.group and spec.group.id),
        (wanted.exit_codes, job.latest_attempt and job.latest_attempt.exit_code),
        (wanted.environments, None if job.attempt is None else job.attempt.environment),
        (wanted.parent and {wanted.parent}, child and child.parent),
    )
    return (
        (child is None or members)
        and wanted.stopped in (None, _is_stopped(job) if _shown_status(job, query) is Status.FAILED else "not failed")
        and (not wanted.held or (job.held and _shown_status(job, query) in QUEUED))
        and all(values is None or value in values for values, value in compared)
        and job.id.startswith(prefix)
        and (
            wanted.definitions is None
            or any(_defines(definition, spec.definition) for definition in wanted.definitions)
        )
        and (wanted.names is None or any(_like_part(spec.name, name) for name in wanted.names))
        and visible(spec.owner, wanted.visibility)
    )


def _is_stopped(job: Job) -> bool:
    return any(order.kind in (StopKind.CANCEL, StopKind.TERMINATE) for order in job.stop_orders)


def _is_in_time(job: Job, query: PageQuery, ends: Mapping[JobId, datetime]) -> bool:
    wanted, end, created = query.selection, _end_of(job, query, ends), milliseconds(job.created_at)
    by_end = query.order_by is SearchOrder.ENDED or wanted.ended_after is not None or wanted.ended_before is not None
    if by_end and (end is None or _shown_status(job, query) not in FINISHED):
        return False
    ended = 0 if end is None else milliseconds(end)
    return (
        (wanted.created_after is None or created > wanted.created_after)
        and (wanted.created_before is None or created < wanted.created_before)
        and (wanted.ended_after is None or ended > wanted.ended_after)
        and (wanted.ended_before is None or ended < wanted.ended_before)
    )


def _shown_status(job: Job, query: PageQuery) -> Status:
    """Decision 0027: arrays and queued children that an order has ended count as FAILED."""
    if job.status is Status.PENDING and job.sequence in query.ended_arrays:
        return Status.FAILED
    of_stopped = job.child is not None and job.sequence - 1 - job.child.index in query.stopped_arrays
    return Status.FAILED if of_stopped and job.status in QUEUED else job.status


def _end_of(job: Job, query: PageQuery, ends: Mapping[JobId, datetime]) -> datetime | None:
    return query.ended_arrays.get(job.sequence) if job.status is Status.PENDING else ends.get(job.id)


def _like_part(text: str, pattern: str) -> bool:
    text, pattern = text.lower(), pattern.lower()
    if not pattern.startswith("*"):
        return _like(text, pattern)
    inner = pattern.removeprefix("*")
    return inner.removesuffix("*") in text if inner.endswith("*") or not inner else text.endswith(inner)
