"""The list of jobs with one row for all jobs of a group that match the filters.

A page begins as the list of all jobs that match. If it has jobs of groups, their places are taken by jobs of no group,
from a second search, and the first one goes on for a few reads, in order to find the groups among those jobs. By
submission, a read continues behind the first job of the group in which the read before it ended, because a group may
have 100,000 jobs; up to MAX_BETWEEN other groups with jobs among those that are left out are searched by themselves,
and with more of them the page has the mark `omits_groups`. The page ends where both searches have arrived, so that the
next one begins there.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId
from batchq.domain.job import Job
from batchq.domain.times import microseconds
from batchq.errors import NotFound
from batchq.ports.groups import GroupQuery
from batchq.ports.job_search import JobCount, JobPage, PageQuery, SearchOrder, SearchPosition

MAX_READS = 4  # of one page
MAX_COUNTED = 999  # jobs of a group
MAX_BETWEEN = 50  # groups with jobs among those that a read leaves out
MAX_SEARCHES_BETWEEN = 8  # for the jobs of these groups
BOTTOM = SearchPosition(0, 0)  # no job has a smaller key


class GroupMatch(Struct, frozen=True, kw_only=True):
    """A group with jobs that match."""

    group: Group
    #: How many of its jobs match.
    count: JobCount


class CollapsedPage(Struct, frozen=True, kw_only=True):
    """One page of the list."""

    #: Those that have a row of their own: of no group, or the only one of their group on this page.
    jobs: Sequence[Job]
    #: Groups of which several jobs match or may match, the one with the newest job first.
    groups: Sequence[GroupMatch] = ()
    #: Where the next page continues; None: no further job matches.
    next: SearchPosition | None
    #: See JobPage.
    searched_back_to: datetime | None
    #: Whether groups may be missing, whose matching jobs are all among those of a larger group.
    omits_groups: bool = False
    #: The first read, of which `jobs` and `groups` are made.
    first: JobPage


class GroupReads(Struct, kw_only=True):
    """What the reads of a page have found."""

    groups: dict[GroupId, Group] = field(default_factory=dict)
    #: The jobs that were read, by their group.
    members: dict[GroupId, list[Job]] = field(default_factory=dict)
    #: The jobs of no group that were read.
    ungrouped: list[Job] = field(default_factory=list)
    #: How far the reads have come; None: to the end.
    position: SearchPosition | None = None
    searched_back_to: datetime | None = None
    #: Groups of which a read left out jobs.
    skipped: set[GroupId] = field(default_factory=set)
    #: See CollapsedPage.
    omits_groups: bool = False


async def collapsed_page(parts: Parts, query: PageQuery, caller: Caller) -> CollapsedPage:
    """The requested page. Raises NotFound as `JobSearchService.search`."""
    first = await parts.search.search(query, caller=caller)
    if not any(job.spec.group for job in first.jobs):
        return CollapsedPage(jobs=first.jobs, next=first.next, searched_back_to=first.searched_back_to, first=first)
    apart = replace(query, selection=replace(query.selection, ungrouped=True))
    try:
        rest = await parts.search.search(apart, caller=caller)
    except NotFound:  # all jobs of a deleted queue, user or account are in groups
        rest = JobPage(jobs=(), next=None, searched_back_to=None)
    reads = await _read_groups(parts, query, first, rest.next, caller)
    end = max(rest.next or BOTTOM, reads.position or BOTTOM)
    here = {group_id: [job for job in jobs if _is_on_page(query, job, end)] for group_id, jobs in reads.members.items()}
    several = [
        group_id
        for group_id, jobs in here.items()
        if group_id in reads.groups and (len(jobs) > 1 or group_id in reads.skipped)
    ]
    matches = await _matches(parts, query, reads, [group_id for group_id in several if here[group_id]], caller)
    groups = [match for match in matches if match.count.jobs > 1 or not match.count.is_exact]
    single = [job for group_id, jobs in here.items() if group_id not in _ids(groups) for job in jobs]
    is_whole = end == (rest.next or BOTTOM)
    own = rest.jobs if is_whole else reads.ungrouped if _is_by_end(query) else rest.jobs
    return CollapsedPage(
        jobs=_in_order(query, [*(job for job in own if is_whole or _is_on_page(query, job, end)), *single]),
        groups=groups,
        next=None if end == BOTTOM else end,
        searched_back_to=rest.searched_back_to if is_whole else reads.searched_back_to,
        omits_groups=reads.omits_groups,
        first=first,
    )


def _ids(matches: Sequence[GroupMatch]) -> set[GroupId]:
    return {match.group.terms.id for match in matches}


async def _read_groups(
    parts: Parts, query: PageQuery, first: JobPage, enough: SearchPosition | None, caller: Caller
) -> GroupReads:
    """`first`: the first read. `enough`: the position at which no further read is needed; None: the end."""
    page, reads = first, GroupReads()
    for number in range(1, MAX_READS + 1):
        for job in page.jobs:
            group = job.spec.group
            (reads.ungrouped if group is None else reads.members.setdefault(group.id, [])).append(job)
        unknown = list(reads.members.keys() - reads.groups)
        reads.groups.update(await parts.search.groups(unknown, caller=caller))
        skipped = _advance(reads, page, can_skip=query.order_by is SearchOrder.CREATED)
        if skipped is not None and page.next is not None:
            await _read_between(parts, replace(query, before=page.next), skipped, reads, caller)
        if reads.position is None or reads.position <= (enough or BOTTOM) or number == MAX_READS:
            break
        page = await parts.search.search(replace(query, before=reads.position), caller=caller)
    return reads


async def _read_between(parts: Parts, query: PageQuery, skipped: Group, reads: GroupReads, caller: Caller) -> None:
    """Read jobs of the other groups that have jobs among those of `skipped` that a read leaves out.

    `query`: with the position of the read before. Every search is the last for the groups of the jobs that it finds.
    """
    assert query.before is not None, "only a read that continues leaves out jobs"
    overlapping = GroupQuery(
        before=query.before.sequence,
        since=skipped.created_at,
        member_after=skipped.sequence,
        limit=len(reads.groups) + MAX_BETWEEN + 1,
        visibility=caller.visibility,
    )
    found = await parts.search.newest_groups(overlapping)
    reads.skipped.update(group.terms.id for group in found if group.terms.id in reads.groups)
    others = {group.terms.id: group for group in found if group.terms.id not in reads.groups}
    reads.omits_groups = reads.omits_groups or len(others) > MAX_BETWEEN
    wanted = dict(list(others.items())[:MAX_BETWEEN])
    for _ in range(MAX_SEARCHES_BETWEEN):
        if not wanted:
            return
        selection = replace(query.selection, groups=frozenset(wanted))
        page = await parts.search.search(replace(query, selection=selection), caller=caller)
        for job in page.jobs:
            if job.spec.group is not None and job.sequence > skipped.sequence:
                reads.members.setdefault(job.spec.group.id, []).append(job)
                reads.groups[job.spec.group.id] = others[job.spec.group.id]
        reads.skipped.update(wanted.keys() & reads.groups)
        if page.next is None or page.next.sequence <= skipped.sequence:
            return
        wanted = {group_id: group for group_id, group in wanted.items() if group_id not in reads.groups}
    reads.omits_groups = reads.omits_groups or bool(wanted)


def _advance(reads: GroupReads, page: JobPage, *, can_skip: bool) -> Group | None:
    """Set where the next read begins: behind `page`, or behind the group of its last job, which is returned."""
    reads.position, reads.searched_back_to = page.next, page.searched_back_to
    last = page.jobs[-1].spec.group if page.jobs else None
    if page.next is None or last is None or last.id not in reads.groups:
        return None
    group = reads.groups[last.id]
    if not can_skip or group.sequence >= page.next.sequence:
        return None
    reads.position, reads.searched_back_to = SearchPosition(0, group.sequence), group.created_at
    reads.skipped.add(last.id)
    return group


async def _matches(
    parts: Parts, query: PageQuery, reads: GroupReads, group_ids: Sequence[GroupId], caller: Caller
) -> list[GroupMatch]:
    """These groups with the numbers of their jobs that match. A group that was not read to its end is counted."""
    unread = [group_id for group_id in group_ids if group_id in reads.skipped or reads.position is not None]
    selections = (replace(query.selection, groups=frozenset({group_id})) for group_id in unread)
    counts = await parts.search.counts(
        [PageQuery(selection=selection, limit=MAX_COUNTED) for selection in selections], caller=caller
    )
    known = dict(zip(unread, counts, strict=True))
    return [
        GroupMatch(
            group=reads.groups[group_id],
            count=known.get(group_id) or JobCount(jobs=len(reads.members[group_id]), is_exact=True),
        )
        for group_id in group_ids
    ]


def _is_by_end(query: PageQuery) -> bool:
    return query.order_by is SearchOrder.ENDED


def _is_on_page(query: PageQuery, job: Job, end: SearchPosition) -> bool:
    """Whether the job is not behind the end of the page. By end it is one of a read: a job does not have its key."""
    return _is_by_end(query) or job.sequence >= end.sequence


def _in_order(query: PageQuery, jobs: Sequence[Job]) -> Sequence[Job]:
    def key(job: Job) -> tuple[int, int]:
        return microseconds(job.stopped_at) if _is_by_end(query) and job.stopped_at else 0, job.sequence

    return sorted(jobs, key=key, reverse=True)
