"""Find: the job, group, queue or definition that a text names. A single hit opens its page."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.pages import Page, PageAnswer, PageTable, Redirect
from batchq.api.http.http import RequestQuery
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.groups import Group
from batchq.domain.ids import DefinitionRef, GroupId, JobId, group_path, job_path
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.ports.groups import GroupQuery
from batchq.ports.job_search import JobPage, PageQuery

MAX_JOBS = 20
MAX_GROUPS = 20
MAX_SEARCHED_GROUPS = 200  # whose names are compared with a part of a name
NO_JOBS = JobPage(jobs=(), next=None, searched_back_to=None)
#: An id or its beginning, with the step to a child or node.
_ID = re.compile(r"([0-9a-f]{8}[0-9a-f-]{0,28})([:#](?:0|[1-9][0-9]{0,4}))?", re.ASCII | re.IGNORECASE)
_ARN = re.compile(r"arn:aws[a-z-]*:batch:[a-z0-9-]*:\d*:(?:job|job-queue|job-definition)/([^/]+)")
_GROUP_ID = re.compile(r"g-[0-9a-f]{20}", re.ASCII)
pages = PageTable()


class FindQuery(RequestQuery):
    """The text to find."""

    q: Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=256)] = ""


class Hit(Struct, frozen=True, kw_only=True):
    """A group, a queue or a definition."""

    kind: str
    name: str
    path: str


@pages.get("/find", Permission.SELF)
async def find_page(parts: Parts, visit: Call[FindQuery]) -> PageAnswer:
    caller, text = visit.caller, visit.input.q.strip()
    arn = _ARN.fullmatch(text)
    text = text if arn is None else arn[1]
    named = await _named_by_id(parts, text, caller)
    others = (*_queues(parts, text, caller), *await _definitions(parts, text, caller)) if text else ()
    hits = [*await _groups(parts, text, caller), *others] if text else []
    found = await _named(parts, text, caller) if text and not named else NO_JOBS
    jobs = named or found.jobs
    if len(jobs) + len(hits) == 1 and found.next is None:
        return Redirect(location=job_path(jobs[0].id) if jobs else hits[0].path)
    values = {
        "text": text,
        "jobs": jobs,
        "hits": hits,
        "found": found,
        "all_jobs": f"/ui/jobs?{urlencode({'name': text if '*' in text else f'*{text}*'})}",
    }
    return Page(template="find.html", title=f"Find {text}" if text else "Find", values=values)


async def _named_by_id(parts: Parts, text: str, caller: Caller) -> tuple[Job, ...]:
    """The jobs whose ids begin with the text. A step leads from each to its child or node."""
    match = _ID.fullmatch(text)
    if match is None:
        return ()
    prefix, step = match[1].lower(), match[2] or ""
    page = await _newest(parts, JobSelection(id_prefix=prefix), caller)
    if not step:
        return page.jobs
    found = [await parts.jobs.find(JobId(f"{job.id}{step}"), caller=caller) for job in page.jobs]
    return tuple(job for job in found if job is not None)


async def _named(parts: Parts, text: str, caller: Caller) -> JobPage:
    """The newest jobs of this name or, without one, of names that contain the text."""
    exact = await _newest(parts, JobSelection(names=frozenset({text})), caller)
    if exact.jobs or "*" in text:
        return exact
    return await _newest(parts, JobSelection(names=frozenset({f"*{text}*"})), caller)


async def _newest(parts: Parts, selection: JobSelection, caller: Caller) -> JobPage:
    return await parts.search.search(PageQuery(selection=selection, limit=MAX_JOBS), caller=caller)


async def _groups(parts: Parts, text: str, caller: Caller) -> Sequence[Hit]:
    """The group of this id; else the newest groups of this name or, of the newest ones, with names that contain it."""
    if _GROUP_ID.fullmatch(text):
        found: Iterable[Group] = (await parts.search.groups([GroupId(text)], caller=caller)).values()
    else:
        named = GroupQuery(name=text, limit=MAX_GROUPS, visibility=caller.visibility)
        found = await parts.search.newest_groups(named)
        if not found:
            newest = await parts.search.newest_groups(replace(named, name=None, limit=MAX_SEARCHED_GROUPS))
            found = [group for group in newest if text.lower() in group.terms.name.lower()][:MAX_GROUPS]
    return [Hit(kind="Group", name=group.terms.name, path=group_path(group.terms.id)) for group in found]


def _queues(parts: Parts, text: str, caller: Caller) -> Sequence[Hit]:
    """The queue of this name or, without one, those whose names contain the text."""
    names = sorted(parts.catalog.queues_of(caller))
    exact = [queue for queue in names if queue == text]
    found = exact or [queue for queue in names if text.lower() in queue.lower()][:MAX_JOBS]
    return [Hit(kind="Queue", name=queue, path=f"/ui/queues/{quote(queue, safe='')}") for queue in found]


async def _definitions(parts: Parts, text: str, caller: Caller) -> Sequence[Hit]:
    """The definition of this name, or its revision `NAME:REVISION`."""
    ref, definitions = DefinitionRef.parse(text), parts.catalog.definitions
    if ref is not None:
        exists = await definitions.get_visible(ref, caller=caller) is not None
    else:
        exists = bool(await definitions.page(name=text, status=None, limit=1, after=None, caller=caller))
    return [] if not exists else [Hit(kind="Definition", name=text, path=f"/ui/definitions/{quote(text, safe='')}")]
