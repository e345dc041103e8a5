"""The pages of job definitions: the list, the revisions of a name, two revisions compared, and deregistration."""

import asyncio
import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from batchq.api.console.pages import Page, PageAnswer, PageTable, Redirect
from batchq.api.console.run_pictures import last_runs, memory_share, runs_picture
from batchq.api.operations.operations import Call, CallLimit
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import DefinitionStatus, JobDefinition
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import DefinitionRef
from batchq.domain.job_selection import JobSelection
from batchq.domain.task import DefinitionForm
from batchq.domain.use import MEASURED_JOBS, DefinitionUse, definition_use
from batchq.domain.wording import bytes_words, memory_words, seconds_words
from batchq.errors import Invalid, NotFound
from batchq.ports.job_search import JobPage, PageQuery

MAX_READ = 500  # revisions that are read for a page of the list
MAX_REVISIONS = 100  # of one name on a page
LAST_JOBS = 20
CONTEXT_LINES = 3  # lines around a difference
MAX_PAIRS = 1_000_000  # of an old and a new line, that are compared for a difference
PAGE_LIMIT = CallLimit(at_once=2, waiting=14)

pages = PageTable()

Revision = Annotated[int, Field(ge=1, lt=10**9)] | None


class DefinitionsQuery(BaseModel):
    """A page of the list of definitions."""

    model_config = ConfigDict(frozen=True)

    #: Only names and revisions after this `NAME:REVISION`.
    after: Annotated[str, Field(max_length=140)] | None = None
    #: Whether INACTIVE revisions are listed too.
    inactive: bool = False


class DefinitionQuery(BaseModel):
    """What the page of a revision or a name shows."""

    model_config = ConfigDict(frozen=True)

    #: Another revision of the name, whose differences are shown.
    other: Annotated[Revision, Field(alias="with")] = None
    #: Of the page of a name: only revisions before this.
    before: Revision = None


class NameRow(Struct, frozen=True, kw_only=True):
    """A name of the list."""

    #: The first listed revision of the name.
    newest: JobDefinition
    #: How many revisions of the name this page of the list has.
    count: int


@pages.get("/definitions", Permission.SELF)
async def definitions_page(parts: Parts, visit: Call[DefinitionsQuery]) -> Page:
    """The names that the caller may use, each with its newest revision."""
    query, after = visit.input, None
    if query.after is not None and (after := DefinitionRef.parse(query.after)) is None:
        raise Invalid("'after' is not NAME:REVISION.")
    found = await parts.catalog.definitions.page(
        name=None,
        status=None if query.inactive else DefinitionStatus.ACTIVE.value,
        limit=MAX_READ,
        after=after,
        caller=visit.caller,
    )
    values = {"query": query, "rows": list(_names(found)), "more": found[-1].ref if len(found) == MAX_READ else None}
    return Page(template="definitions.html", title="Job definitions", values=values)


@pages.get("/definitions/{ref:[^/]{1,256}}", Permission.SELF, limit=PAGE_LIMIT)
async def definition_page(parts: Parts, visit: Call[DefinitionQuery]) -> Page:
    """A revision `NAME:3`, or all revisions of a name."""
    ref, caller = visit.path["ref"], visit.caller
    if ":" not in ref:
        return await _name_page(parts, ref, visit.input.before, caller)
    definition = await find_definition(parts, ref, caller)
    document, other = _pretty(definition), visit.input.other
    difference = None
    if other is not None:
        before = await find_definition(parts, f"{definition.ref.name}:{other}", caller)
        difference = await asyncio.to_thread(definition_difference, _pretty(before), document)
    jobs = await _last_jobs(parts, str(definition.ref), caller, limit=MEASURED_JOBS)
    uses = (attempt.use for job in jobs.jobs for attempt in job.attempts)
    used = definition_use(uses, definition.nodes.resources.memory_mib)
    values = {
        "definition": definition,
        "document": document,
        "other": other,
        "difference": difference,
        "containers": list(_containers(definition)),
        "jobs": replace(jobs, jobs=jobs.jobs[:LAST_JOBS]),
        "runs": runs_picture(await last_runs(parts, str(definition.ref), caller=caller)),
        "memory": memory_share(used),
        "used": used,
        "use_rows": list(_use_rows(used)),
        "may_deregister": definition.status is DefinitionStatus.ACTIVE and caller.reaches(definition.owner),
    }
    return Page(template="definition.html", title=f"Definition {definition.ref}", values=values)


async def _name_page(parts: Parts, name: str, before: int | None, caller: Caller) -> Page:
    revisions = await _revisions(parts, name, before, caller)
    if not revisions:
        raise NotFound(f"JobDefinition {name} not found.")
    values = {
        "name": name,
        "revisions": revisions,
        "newest": next((definition for definition in revisions if definition.status is DefinitionStatus.ACTIVE), None),
        "older": revisions[-1].ref.revision if revisions[-1].ref.revision > 1 else None,
        "before": before,
        "jobs": await _last_jobs(parts, name, caller),
    }
    return Page(template="definition_name.html", title=f"Definition {name}", values=values)


async def _revisions(parts: Parts, name: str, before: int | None, caller: Caller) -> list[JobDefinition]:
    """The newest revisions of a name, newest first. `before`: only revisions below this one; None: all."""
    after = None if before is None else DefinitionRef(name=name, revision=before)
    page = parts.catalog.definitions.page
    return list(await page(name=name, status=None, limit=MAX_REVISIONS, after=after, caller=caller))


def _use_rows(used: DefinitionUse) -> Iterator[tuple[str, str, str, str, str]]:
    """A figure, its median, its 95th percentile and its maximum over the attempts, and what the definition requests."""
    memory = memory_words(used.memory_mib)
    figures = (
        ("CPU time", used.cpu_seconds, seconds_words, ""),
        ("Peak memory", used.peak_memory, lambda size: bytes_words(int(size)), memory),
        ("Working set", used.working_set, lambda size: bytes_words(int(size)), memory),
    )
    for label, found, words, limit in figures:
        if found is not None:
            yield label, words(found.median), words(found.p95), words(found.most), limit


async def _last_jobs(parts: Parts, definition: str, caller: Caller, *, limit: int = LAST_JOBS) -> JobPage:
    query = PageQuery(selection=JobSelection(definitions=frozenset({definition})), limit=limit)
    return await parts.search.search(query, caller=caller)


def _names(found: Iterable[JobDefinition]) -> Iterator[NameRow]:
    for _, revisions in groupby(found, key=lambda definition: definition.ref.name):
        listed = list(revisions)
        yield NameRow(newest=listed[0], count=len(listed))


def _containers(definition: JobDefinition) -> Iterator[tuple[str, ContainerSpec]]:
    """The containers of a job of the definition, each with its name; empty for the only one."""
    form = definition.nodes.form
    for node_range in definition.nodes.ranges:
        where = f"nodes {node_range.first} to {node_range.last}: " if form is DefinitionForm.NODES else ""
        for container in node_range.task.containers:
            yield "" if form is DefinitionForm.CONTAINER else f"{where}{container.name}", container.spec


async def find_definition(parts: Parts, text: str, caller: Caller) -> JobDefinition:
    """The revision `name:revision`. Raises NotFound."""
    ref = DefinitionRef.parse(text)
    found = None if ref is None else await parts.catalog.definitions.get_visible(ref, caller=caller)
    if found is None:
        raise NotFound(f"JobDefinition {text} not found.")
    return found


def _pretty(definition: JobDefinition) -> str:
    """The JSON that was registered, one member a line."""
    return json.dumps(json.loads(definition.document), indent=2, ensure_ascii=False, sort_keys=True)


def definition_difference(before: str, after: str) -> Sequence[str]:
    """The lines of a unified difference without its head; empty if the texts are equal.

    Between the first and the last difference of long texts, all lines are shown as changed: difflib takes minutes for
    texts of 24 KiB that were made for that.
    """
    old, new = before.splitlines(), after.splitlines()
    begin = _common(zip(old, new, strict=False))
    end = _common(zip(reversed(old[begin:]), reversed(new[begin:]), strict=False))
    removed, added = old[begin : len(old) - end], new[begin : len(new) - end]
    if len(removed) * len(added) <= MAX_PAIRS:
        return list(difflib.unified_diff(old, new, lineterm="", n=CONTEXT_LINES))[2:]
    head = f"@@ -{begin + 1},{len(removed)} +{begin + 1},{len(added)} @@"
    return [head, *(f"-{line}" for line in removed), *(f"+{line}" for line in added)]


def _common(pairs: Iterable[tuple[str, str]]) -> int:
    """How many pairs are equal before the first one that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@pages.get("/definitions/{ref}/deregister", Permission.SELF)
async def deregister_page(parts: Parts, visit: Call[None]) -> PageAnswer:
    definition = await find_definition(parts, visit.path["ref"], visit.caller)
    values = {"definition": definition, "path": f"/ui/definitions/{definition.ref}"}
    return Page(template="deregister.html", title=f"Deregister {definition.ref}", values=values)


@pages.post("/definitions/{ref}/deregister", Permission.SELF)
async def post_deregister(parts: Parts, visit: Call[None]) -> PageAnswer:
    definition = await find_definition(parts, visit.path["ref"], visit.caller)
    caller = replace(visit.caller, operation="DeregisterJobDefinition")
    await parts.catalog.definitions.deregister(definition.ref, caller=caller)
    return Redirect(location=f"/ui/definitions/{definition.ref}")
