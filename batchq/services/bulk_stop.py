"""The bulk stop service: cancels or terminates all jobs that a request selects, and reports the outcome of each."""

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, Directory
from batchq.domain.bulk_stop import (
    JobOutcome,
    Preview,
    container_outcome,
    selected_container,
    standing_order,
    stop_outcome,
)
from batchq.domain.enums import FINISHED, Outcome
from batchq.domain.ids import MAX_DIGITS, JobId, child_id, container_id, node_id, node_of, parent_of
from batchq.domain.job import Job
from batchq.domain.job_selection import UNFINISHED, JobSelection
from batchq.domain.lifecycle import views
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.domain.stop_request import StopRequest
from batchq.domain.task import DefinitionForm
from batchq.engine.engine import Engine
from batchq.errors import Invalid
from batchq.ports.jobs import JobStore
from batchq.services.job_reads import PendingOrdersView, hidden_names, name_not_found, visible_selection

BATCH_SIZE = 500  # jobs that are read from the store, or reported to the client, at a time
PREVIEW_BATCH_SIZE = (
    20_000  # jobs that a preview selects at a time: selecting a page costs as much as selecting all jobs
)

NOT_SPAWNED = "Job {id} is not stopped: its array has not spawned it yet. CancelJob and TerminateJob accept it."

T = TypeVar("T")
Outcomes = tuple[JobOutcome, ...]

_JOB_ID = re.compile(r"(?P<whole>[^:#.]+(?::[0-9]+(?=\.))?)(?:(?P<mark>[:#.])(?P<step>[^:#.]+))?")

_STRICT_ID = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:[:#][0-9]{1,5}|(?::[0-9]{1,5})?\.[A-Za-z0-9_-]{1,128})?"
)


def require_stop_ids(ids: Iterable[str]) -> None:
    """Raise Invalid for a text that the ids of a selection of jobs to stop cannot contain."""
    for job_id in ids:
        if _STRICT_ID.fullmatch(job_id) is None:
            raise Invalid(f"{job_id[:100]!r} is not the id of a job, of a child, of a node or of a container.")


#: The jobs of a queue, a user or an account, by kind.
_JOBS_OF: Mapping[str, Callable[[str], JobSelection]] = {
    "JobQueue": lambda name: JobSelection(queues=frozenset({name})),
    "User": lambda name: JobSelection(users=frozenset({name})),
    "Account": lambda name: JobSelection(accounts=frozenset({name})),
}


class BulkStopService:
    """Bulk stops. Jobs, queues, users and accounts that are not visible to the caller are treated as missing."""

    def __init__(
        self,
        *,
        engine: Engine,
        store: JobStore,
        directory: Callable[[], Directory],
        queues: Callable[[Caller], Collection[str]],
        environments: Callable[[], Collection[str]],
    ) -> None:
        """`queues`: the names of the queues that are visible to a caller. `environments`: those of all environments."""
        self._environments = environments
        self._engine = engine
        self._queues = queues
        self._store = store
        self._projected = PendingOrdersView(store, engine.pending_array_orders, engine.start_obstacle)
        self._directory = directory

    async def check(self, selection: JobSelection, *, caller: Caller) -> None:
        """Raises NotFound for the first queue, user, account or environment that is not visible to the caller.

        A deleted user or account, or a queue that is no longer visible, is accepted while the caller reaches an
        unfinished job of it. Raises Invalid for a selection that excludes all unfinished jobs.
        """
        if not selection.possible_statuses & UNFINISHED:
            raise Invalid("Only unfinished jobs are stopped, and the selection excludes them.")
        missing = sorted((selection.environments or frozenset()) - set(self._environments()))
        if missing:
            raise name_not_found("ComputeEnvironment", missing[0])
        named = replace(selection, users=self._visible(selection, caller).users)
        for kind, name in hidden_names(named, self._directory(), self._queues(caller), caller=caller):
            if not await self._store.preview(self._visible(_JOBS_OF[kind](name), caller), 1):
                raise name_not_found(kind, name)

    async def stop(self, request: StopRequest, selection: JobSelection, *, caller: Caller) -> AsyncIterator[Outcomes]:
        """Stop the selected jobs. The iterator yields the outcomes as the orders are applied.

        The selection is durable when this method returns. Raises StoreFailed; Invalid for force with other options.
        """
        request.check()
        request, selection = replace(request, user=caller.user), self._visible(selection, caller)
        if selection.ids is None:
            return await self._engine.stop_many(request, selection, caller=caller)
        ids, refused = await self._resolve_ids(selection.ids, caller)
        chosen = replace(selection, ids=tuple(ids.values()))
        outcomes = await self._engine.stop_many(request, chosen, caller=caller) if ids else _no_outcomes()
        return self._with_unmatched(ids, refused, outcomes)

    async def preview(
        self, request: StopRequest, selection: JobSelection, *, caller: Caller
    ) -> AsyncIterator[Outcomes]:
        """The outcomes that `stop` would have. Read-only. Raises Invalid for force with other options."""
        request.check()
        selection = self._visible(selection, caller)
        if selection.ids is None:
            return self._previewed(request, selection, {})
        ids, refused = await self._resolve_ids(selection.ids, caller)
        names = {member: job_id for job_id, member in ids.items()}
        chosen = replace(selection, ids=tuple(ids.values()))
        outcomes = self._previewed(request, chosen, names) if ids else _no_outcomes()
        return self._with_unmatched(ids, refused, outcomes)

    def _visible(self, selection: JobSelection, caller: Caller) -> JobSelection:
        return visible_selection(selection, self._directory(), caller)

    async def _previewed(
        self, request: StopRequest, selection: JobSelection, names: Mapping[JobId, JobId]
    ) -> AsyncIterator[Outcomes]:
        """`names`: the ids that were requested, by what they select."""
        after = None
        while found := await self._store.preview(selection, PREVIEW_BATCH_SIZE, after):
            after = found[-1].place
            for page in _pages(found):
                yield await self._predicted(request, page, names)

    async def _predicted(
        self, request: StopRequest, page: Sequence[Preview], names: Mapping[JobId, JobId]
    ) -> tuple[JobOutcome, ...]:
        containers = {
            preview.job_id for preview in page if preview.place[1] is not None and "#" not in names[_member(preview)]
        }
        jobs = await self._projected.jobs(sorted(containers)) if containers else {}
        return tuple(_predicted(request, preview, jobs.get(preview.job_id), names) for preview in page)

    async def _resolve_ids(self, ids: Sequence[str], caller: Caller) -> tuple[dict[JobId, JobId], list[JobOutcome]]:
        """The ids that may be stopped with what they select, and an outcome for each of the others."""
        members: dict[JobId, JobId] = {}
        refused: list[JobOutcome] = []
        for some in _pages(list(dict.fromkeys(ids))):
            steps = [_parse_id(text) for text in some]
            needed = [job_id for whole, _, step in steps for job_id in (whole, child_id(whole, _number(step) or 0))]
            known = await self._projected.jobs(needed, visibility=caller.visibility)
            for whole, mark, step in steps:
                found, member = _outcome_before(known, whole, mark, step)
                if found.outcome is Outcome.NOT_MATCHED:
                    members[found.job_id] = member
                else:
                    refused.append(found)
        return members, refused

    async def _with_unmatched(
        self, ids: Mapping[JobId, JobId], refused: Sequence[JobOutcome], outcomes: AsyncIterator[Outcomes]
    ) -> AsyncIterator[Outcomes]:
        """The outcomes in `outcomes`, and those of all requested ids that the order did not stop."""
        unmatched = dict.fromkeys(ids)
        for why_not in _pages(refused):
            yield tuple(why_not)
        async for each in outcomes:
            for outcome in each:
                unmatched.pop(outcome.job_id, None)
                child = parent_of(outcome.job_id)
                if child is not None:
                    unmatched.pop(child[0], None)
            yield each
        for some in _pages(list(unmatched)):
            arrays = [array[0] for job_id in some if (array := parent_of(node_of(ids[job_id])[0])) is not None]
            known = await self._projected.jobs([*(node_of(ids[job_id])[0] for job_id in some), *arrays])
            yield tuple(_outcome_of_unmatched(known, job_id, ids[job_id]) for job_id in some)


def _parse_id(text: str) -> tuple[JobId, str, str]:
    found = _JOB_ID.fullmatch(text)
    assert found is not None, f"{text!r} is not a job id"
    return JobId(found["whole"]), found["mark"] or "", found["step"] or ""


def _number(step: str) -> int | None:
    """The step as an index; None for a name."""
    return int(step) if step.isascii() and step.isdigit() and len(step) <= MAX_DIGITS else None


def _outcome_before(known: Mapping[JobId, Job], whole: JobId, mark: str, step: str) -> tuple[JobOutcome, JobId]:
    """The outcome of a requested id before the selection, and the id of what it selects, as in `JobSelection.ids`.

    NOT_MATCHED: the job exists and may be selected. A child that its array has not spawned yet counts as existing.
    """
    job, number = known.get(whole), _number(step)
    if not step:
        missing = JobOutcome(job_id=whole, outcome=Outcome.NOT_FOUND)
        return missing if job is None else _outcome_of(job, whole), whole
    form = None if job is None else job.spec.nodes.form
    if mark == "." and job is not None and form is DefinitionForm.TASK and not is_parent(job):
        return _outcome_of_container(job, step)
    of_node = mark == "#" or (mark == "." and form is DefinitionForm.NODES)
    if number is None:
        return JobOutcome(job_id=JobId(f"{whole}{mark}{step}"), outcome=Outcome.NOT_FOUND), whole
    named = node_id(whole, number) if of_node else child_id(whole, number)
    if job is not None and of_node and views.node_exists(job, number):
        return _outcome_of(views.node_view(job, number), named), node_id(whole, number)
    if job is not None and not of_node and is_parent(job) and number < size(job):
        return _outcome_of(known.get(named, job), named), named
    return JobOutcome(job_id=named, outcome=Outcome.NOT_FOUND), whole


def _outcome_of_container(job: Job, step: str) -> tuple[JobOutcome, JobId]:
    """The container that `step` names, or whose index it is."""
    names = [container.name for container in job.spec.nodes.task(job.spec.nodes.main).containers]
    number = names.index(step) if step in names else _number(step)
    if number is None or number >= len(names):
        named = container_id(job.id, step)
        note = f"Job {named} not found: the containers of the job are {', '.join(names)}."
        return JobOutcome(job_id=named, outcome=Outcome.NOT_FOUND, note=note), job.id
    return _outcome_of(job, container_id(job.id, names[number])), node_id(job.id, number)


def _outcome_of_unmatched(known: Mapping[JobId, Job], job_id: JobId, member: JobId) -> JobOutcome:
    whole, part = node_of(member)
    job, array = known.get(whole), parent_of(whole)
    if job is None:
        note = NOT_SPAWNED.format(id=job_id) if array is not None and array[0] in known else ""
        return JobOutcome(job_id=job_id, outcome=Outcome.NOT_FOUND, note=note)
    return _outcome_of(
        job if part is None or job.spec.nodes.form is not DefinitionForm.NODES else views.node_view(job, part), job_id
    )


def _outcome_of(job: Job, job_id: JobId) -> JobOutcome:
    over = job.status in FINISHED
    became = Outcome.ALREADY_FINISHED if over else Outcome.NOT_MATCHED
    return JobOutcome(job_id=job_id, name=job.spec.name, status=job.status, outcome=became)


def _member(preview: Preview) -> JobId:
    part = preview.place[1]
    return preview.job_id if part is None else node_id(preview.job_id, part)


def _predicted(request: StopRequest, preview: Preview, task: Job | None, names: Mapping[JobId, JobId]) -> JobOutcome:
    """`task`: the job, if one container of it is selected."""
    became = stop_outcome(request.kind, preview.status, has_children=preview.has_children)
    _, part = preview.place
    standing = standing_order(request, preview) if part is None else None
    job_id, note = names.get(_member(preview), preview.job_id), ""
    container = None if task is None else selected_container(task, part)
    if task is not None and container is not None:
        became, note = container_outcome(request, task, container)
    return JobOutcome(
        job_id=job_id,
        name=preview.name,
        status=preview.status,
        outcome=became,
        note=note,
        standing=standing,
        children=preview.children,
    )


def _pages(all_of: Sequence[T]) -> Iterator[Sequence[T]]:
    return (all_of[start : start + BATCH_SIZE] for start in range(0, len(all_of), BATCH_SIZE))


async def _no_outcomes() -> AsyncIterator[Outcomes]:
    return
    yield  # makes this function an async generator
