"""Handles: how a command names jobs and groups.

A handle is a complete id, the beginning of a job's id (8 digits or more), a name, or `@`, the caller's latest job. The
name or the id of a group stands for its jobs. A step may follow a job: `:3` or `:190-194` for children of an array,
`#1` for a node. Commands that stop jobs also accept `.sidecar` or `.0` for a container of a task, and behind a complete
id Slurm's `_3`. Commands that take several jobs accept lists with commas, and `-` for the handles that stdin has.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from batchq.cli.output import print_notice
from batchq.cli.server_requests import fetch_groups, fetch_jobs
from batchq.domain.enums import FINISHED
from batchq.errors import NotFound, UsageError
from batchq.ports.responses.jobs import JobRow

LATEST = "@"
STDIN = "-"
MAX_LISTED = 5  # candidates in the message on an ambiguous handle
MAX_CANDIDATES = 1000
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_INDEX = r"(0|[1-9]\d{0,4})"
_HANDLE = re.compile(
    rf"(@|[A-Za-z0-9][\w-]{{0,127}})(?::{_INDEX}(?:-{_INDEX})?|#{_INDEX})?(\.[\w-]{{1,128}})?", re.ASCII
)
_SLURM_CHILD = re.compile(rf"({_ID.pattern})_(?=\d)", re.ASCII)
_GROUP_ID = re.compile(r"g-[0-9a-f]{20}", re.ASCII)
_PREFIX = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.ASCII)
HELP_ONE = (
    "job: its id or the first 8 digits of it, its name if no other job has it, or @ for your latest job; JOB:3 is a "
    "child of an array, JOB#1 a node"
)
HELP = (
    f"{HELP_ONE}; the name or the id of a group: its jobs; several jobs: JOB,JOB, children JOB:190-194, or - for those "
    "that stdin lists"
)


class Handle(Struct, frozen=True, kw_only=True):
    """A parsed handle."""

    #: The part before the step: an id, a prefix, a name or `@`.
    job: str
    #: The ends of the ids of its steps, as `:3`, `:4` or `.sidecar`; a single empty one: the job itself.
    steps: tuple[str, ...]


def parse_handle(text: str, *, stops: bool = False) -> Handle:
    """Parse a handle without asking the server. `stops`: of a command that stops jobs. Raises UsageError."""
    parts = _HANDLE.fullmatch(_SLURM_CHILD.sub(r"\1:", text, count=1) if stops else text)
    if parts is None or (parts[5] and (parts[4] or not stops)):
        raise UsageError(f"{text!r} is not a job: give an id, its first 8 digits or more, a name, or @")
    job, first, last, node, container = parts.groups()
    if first is None:
        return Handle(job=job, steps=(f"#{node}" if node else container or "",))
    steps = tuple(f":{index}{container or ''}" for index in range(int(first), int(last or first) + 1))
    if not steps:
        raise UsageError(f"{text!r} is an empty range")
    return Handle(job=job, steps=steps)


def _split(words: Iterable[str]) -> list[str]:
    """The handles of lists with commas, with those that stdin has in place of `-`."""
    return [part.strip() for word in words for part in (sys.stdin.read().split() if word == STDIN else word.split(","))]


class Several(Enum):
    """What a name that several jobs have means."""

    #: An error, unless only one of them is unfinished.
    REFUSED = "refused"
    #: The newest job; a notice names the job.
    NEWEST = "newest"
    #: All of them.
    ALL = "all"


class Targets(NamedTuple):
    """What handles name, each once, in their order."""

    jobs: list[str]
    groups: list[str]


def resolve_targets(
    url: str, handles: Iterable[str], *, stops: bool = False, several: Several = Several.REFUSED
) -> Targets:
    """The complete ids of the jobs and groups; none for `-` with an empty stdin.

    `handles`: words of the command line. `stops`: for a command that stops jobs. Raises UsageError for an invalid or
    ambiguous handle, NotFound if nothing matches, and the errors of `call`.
    """
    parsed = [parse_handle(part, stops=stops) for part in _split(handles)]
    ids = {handle.job: _resolve(url, handle.job, several) for handle in parsed}
    for handle in parsed:
        if handle.steps != ("",) and _GROUP_ID.fullmatch(ids[handle.job][0]):
            raise UsageError(f"{handle.job!r} is a group, which has no children")
    found = dict.fromkeys(f"{job}{step}" for handle in parsed for job in ids[handle.job] for step in handle.steps)
    groups = [text for text in found if _GROUP_ID.fullmatch(text)]
    return Targets(jobs=[text for text in found if text not in groups], groups=groups)


def resolve_jobs(url: str, handles: Iterable[str], *, several: Several = Several.REFUSED) -> list[str]:
    """The complete ids of jobs, as `resolve_targets`. Raises UsageError for a group."""
    found = resolve_targets(url, handles, several=several)
    if found.groups:
        group = found.groups[0]
        raise UsageError(f"{group} is a group; this command takes a job: name one that batchq list {group} prints")
    return found.jobs


def resolve_job(url: str, handle: str, *, several: Several = Several.REFUSED) -> str:
    """The complete id of one job. Raises UsageError for a range of children, and the errors of `resolve_jobs`."""
    return single(handle, resolve_jobs(url, [handle], several=several))


def single(handle: str, found: Sequence[str]) -> str:
    """The only job of a handle. Raises UsageError."""
    if len(found) != 1:
        raise UsageError(f"{handle!r} selects {len(found)} jobs; this command takes one")
    return found[0]


def _resolve(url: str, job: str, several: Several) -> list[str]:
    """The id of a job or a group; several ids for a name that means all jobs."""
    if _ID.fullmatch(job) or _GROUP_ID.fullmatch(job):
        return [job]
    if job == LATEST:
        return [_latest(url)]
    if _PREFIX.fullmatch(job):
        found = _search(url, idPrefix=job)
        if found:
            return [_single(job, found)]
    return _named(url, job, several)


def _latest(url: str) -> str:
    found = _search(url, limit=1, mine=True)
    if not found:
        raise NotFound("you have no job that @ could stand for")
    return found[0].job_id


def _named(url: str, name: str, several: Several) -> list[str]:
    """The group or the jobs of this name: what was submitted last."""
    found = [row for row in _search(url, jobNames=[name]) if row.job_name == name]
    groups = [
        group for group in fetch_groups(url, groupName=name, maxResults=MAX_CANDIDATES) if group.group_name == name
    ]
    if groups and (not found or groups[0].created_at >= found[0].created_at):
        if several is Several.ALL:
            return [group.group_id for group in groups]
        if len(groups) > 1:
            print_notice(f"{len(groups)} groups have the name {name}; {groups[0].group_id} is the newest")
        return [groups[0].group_id]
    if not found:
        raise NotFound(f"no job or group has the name {name!r}, or an id that begins so")
    if several is Several.ALL:
        return [row.job_id for row in found]
    if several is Several.NEWEST and len(found) > 1:
        print_notice(f"{len(found)} jobs have the name {name}; {found[0].job_id} is the newest")
        return [found[0].job_id]
    unfinished = [row for row in found if row.status not in FINISHED]
    return [_single(name, unfinished if len(unfinished) == 1 else found)]


def _single(handle: str, found: list[JobRow]) -> str:
    if len(found) == 1:
        return found[0].job_id
    listed = ", ".join(f"{row.job_id} ({row.job_name}, {row.status})" for row in found[:MAX_LISTED])
    more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    raise UsageError(f"{handle!r} is ambiguous: {listed}{more}; give a complete id")


def _search(url: str, *, limit: int = MAX_CANDIDATES, **filters: object) -> list[JobRow]:
    return list(fetch_jobs(url, filters, limit=limit).jobs)
