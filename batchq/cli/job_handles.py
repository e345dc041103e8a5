"""Short names of jobs, which all commands accept.

A handle is a complete id, the beginning of an id (8 digits or more), a name that only one job has, or `@`, the caller's
latest job. A step may follow: `:3` or `:190-194` for children of an array, `#1` for a node. Commands that stop jobs
also accept `.sidecar` or `.0` for a container of a task, and behind a complete id Slurm's `_3`. Commands that take
several jobs accept lists with commas, and `-` for the handles that stdin has.
"""

import re
import sys
from collections.abc import Iterable

from msgspec import Struct

from batchq.cli.server_requests import FINISHED, Row, fetch_jobs
from batchq.errors import Misused, NotFound

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
_PREFIX = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.ASCII)
HELP_ONE = (
    "job: its id or the first 8 digits of it, its name if no other job has it, or @ for your latest job; JOB:3 is a "
    "child of an array, JOB#1 a node"
)
HELP = f"{HELP_ONE}; several jobs: JOB,JOB, children JOB:190-194, or - for those that stdin lists"


class Handle(Struct, frozen=True, kw_only=True):
    """A parsed handle."""

    #: The part before the step: an id, a prefix, a name or `@`.
    job: str
    #: The ends of the ids of its steps, as `:3`, `:4` or `.sidecar`; a single empty one: the job itself.
    steps: tuple[str, ...]


def parse_handle(text: str, *, stops: bool = False) -> Handle:
    """Parse a handle without asking the server. `stops`: of a command that stops jobs. Raises Misused."""
    parts = _HANDLE.fullmatch(_SLURM_CHILD.sub(r"\1:", text, count=1) if stops else text)
    if parts is None or (parts[5] and (parts[4] or not stops)):
        raise Misused(f"{text!r} is not a job: give an id, its first 8 digits or more, a name, or @")
    job, first, last, node, container = parts.groups()
    if first is None:
        return Handle(job=job, steps=(f"#{node}" if node else container or "",))
    steps = tuple(f":{it}{container or ''}" for it in range(int(first), int(last or first) + 1))
    if not steps:
        raise Misused(f"{text!r} is an empty range")
    return Handle(job=job, steps=steps)


def _split(words: Iterable[str]) -> list[str]:
    """The handles of lists with commas, with those that stdin has in place of `-`."""
    return [it.strip() for word in words for it in (sys.stdin.read().split() if word == STDIN else word.split(","))]


def resolve_jobs(url: str, handles: Iterable[str], *, stops: bool = False) -> list[str]:
    """The complete ids of the handles, each once, in their order; none for `-` with an empty stdin.

    `handles`: words of the command line. `stops`: for a command that stops jobs.
    Raises Misused for an invalid or ambiguous handle, NotFound if no job matches, and the errors of `call`.
    """
    parsed = [parse_handle(it, stops=stops) for it in _split(handles)]
    ids = {it.job: _resolve(url, it.job) for it in parsed}
    return list(dict.fromkeys(f"{ids[it.job]}{step}" for it in parsed for step in it.steps))


def resolve_job(url: str, handle: str) -> str:
    """The complete id of one job. Raises Misused for a range of children, and the errors of `resolve_jobs`."""
    found = resolve_jobs(url, [handle])
    if len(found) != 1:
        raise Misused(f"{handle!r} selects {len(found)} jobs; this command takes one")
    return found[0]


def _resolve(url: str, job: str) -> str:
    if _ID.fullmatch(job):
        return job
    if job == LATEST:
        return _latest(url)
    if _PREFIX.fullmatch(job):
        found = _search(url, idPrefix=job)
        if found:
            return _single(job, found)
    return _named(url, job)


def _latest(url: str) -> str:
    found = _search(url, limit=1, mine=True)
    if not found:
        raise NotFound("you have no job that @ could stand for")
    return str(found[0]["jobId"])


def _named(url: str, name: str) -> str:
    """The only job of this name, or the only unfinished one."""
    found = [it for it in _search(url, names=[name]) if it.get("jobName") == name]
    if not found:
        raise NotFound(f"no job has the name {name!r}, or an id that begins so")
    unfinished = [it for it in found if it.get("status") not in FINISHED]
    return _single(name, unfinished if len(unfinished) == 1 else found)


def _single(handle: str, found: list[Row]) -> str:
    if len(found) == 1:
        return str(found[0]["jobId"])
    listed = ", ".join(f"{it['jobId']} ({it['jobName']}, {it['status']})" for it in found[:MAX_LISTED])
    more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    raise Misused(f"{handle!r} is ambiguous: {listed}{more}; give a complete id")


def _search(url: str, *, limit: int = MAX_CANDIDATES, **filters: object) -> list[Row]:
    rows: list[Row] = fetch_jobs(url, filters, limit=limit)["jobs"]
    return rows
