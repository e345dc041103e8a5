"""The bulk stop service: cancels or terminates all jobs that a request selects, and reports the outcome of each."""

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, AccountName, Caller, Directory
from batchq.domain.access.permissions import knows_account, knows_user
from batchq.domain.bulk_stop import BulkStopOrder, JobFilter, JobOutcome, Outcome, Preview, outcome
from batchq.domain.ids import JobId, child_id, node_id, node_of, parent_of
from batchq.domain.job import FINISHED, Job
from batchq.domain.lifecycle import node_view
from batchq.domain.lifecycle.arrays import is_parent, size
from batchq.engine.engine import Engine
from batchq.errors import NotFound
from batchq.ports.jobs import JobStore
from batchq.services.jobs import PendingOrdersView

AT_ONCE = 500  # jobs that are read from the store, or reported to the client, at a time
FORETOLD = 20_000  # jobs that a preview selects at a time: selecting a page costs as much as selecting all jobs

NOT_SPAWNED = "Job {id} is not stopped: its array has not spawned it yet. CancelJob and TerminateJob accept it."

T = TypeVar("T")
Some = tuple[JobOutcome, ...]

_STEP = re.compile(r"(?P<whole>[^:#.]+)(?:(?P<mark>[:#.])(?P<number>[0-9]+))?")


class BulkStopRequest(Struct, frozen=True, kw_only=True):
    """Which jobs a client wants to stop: those for which all conditions hold."""

    #: Job ids, `ARRAY:INDEX`, `GANG#NODE`, or either with a dot instead of the mark; None: all jobs.
    ids: tuple[str, ...] | None = None
    #: Accounts, each with all accounts below it; None: all accounts.
    accounts: frozenset[AccountName] | None = None
    #: All other conditions.
    rest: JobFilter = JobFilter()


class BulkStopService:
    """Bulk stops. Jobs, queues, users and accounts that are not visible to the caller are treated as missing."""

    def __init__(
        self,
        *,
        engine: Engine,
        store: JobStore,
        people: Callable[[], Directory],
        queues: Callable[[Caller], Collection[str]],
    ) -> None:
        """`queues`: the names of the queues that are visible to a caller."""
        self._engine = engine
        self._queues = queues
        self._store = store
        self._shown = PendingOrdersView(store, engine.sealed, engine.start_obstacle)
        self._people = people

    async def check(self, asked: BulkStopRequest, *, caller: Caller) -> None:
        """Raises NotFound for the first queue, user or account in the request that is not visible to the caller.

        A deleted user or account, or a queue that is no longer visible, is accepted while the caller reaches an
        unfinished job of it.
        """
        people, rest = self._people(), asked.rest
        users = {caller.user, *(name for name, user in people.users.items() if knows_user(caller, user))}
        accounts = {caller.account, *(name for name in (ROOT, *people.accounts) if knows_account(caller, name))}
        unseen = [
            *(
                ("JobQueue", it, BulkStopRequest(rest=JobFilter(queues=frozenset({it}))))
                for it in _but(rest.queues, self._queues(caller))
            ),
            *(("User", it, BulkStopRequest(rest=JobFilter(users=frozenset({it})))) for it in _but(rest.users, users)),
            *(
                ("Account", it, BulkStopRequest(accounts=frozenset({AccountName(it)})))
                for it in _but(asked.accounts, accounts)
            ),
        ]
        for what, name, its_jobs in unseen:
            if not await self._store.preview(self._selection(its_jobs, None, caller), 1):
                raise NotFound(f"{what} {name[:128]} not found.")

    async def stop(self, order: BulkStopOrder, asked: BulkStopRequest, *, caller: Caller) -> AsyncIterator[Some]:
        """Stop the selected jobs. The iterator yields the outcomes as the orders are applied. Raises StoreFailed.

        The selection is durable when this method returns.
        """
        if asked.ids is None:
            return await self._engine.sweep(order, self._selection(asked, None, caller), caller=caller)
        ids, refused = await self._named(asked.ids, caller)
        told = await self._engine.sweep(order, self._selection(asked, ids, caller), caller=caller) if ids else _none()
        return self._with_those_left(ids, refused, told)

    async def preview(self, order: BulkStopOrder, asked: BulkStopRequest, *, caller: Caller) -> AsyncIterator[Some]:
        """The outcomes that `stop` would have. Read-only."""
        if asked.ids is None:
            return self._sketched(order, self._selection(asked, None, caller))
        ids, refused = await self._named(asked.ids, caller)
        told = self._sketched(order, self._selection(asked, ids, caller)) if ids else _none()
        return self._with_those_left(ids, refused, told)

    def _selection(self, asked: BulkStopRequest, ids: Sequence[JobId] | None, caller: Caller) -> JobFilter:
        people, accounts = self._people(), None
        if asked.accounts is not None:
            accounts = frozenset(below for it in asked.accounts for below in people.below(it))
        members = None if ids is None else tuple(map(node_of, ids))
        return replace(asked.rest, members=members, accounts=accounts, reach=caller.reach)

    async def _sketched(self, order: BulkStopOrder, selection: JobFilter) -> AsyncIterator[Some]:
        after = None
        while found := await self._store.preview(selection, FORETOLD, after):
            after = found[-1].place
            for page in _pages(found):
                yield tuple(_foretold(order, it) for it in page)

    async def _named(self, said: Sequence[str], caller: Caller) -> tuple[list[JobId], list[JobOutcome]]:
        """The ids that may be stopped, and an outcome for each of the others; duplicates are dropped."""
        found: list[JobOutcome] = []
        for some in _pages(list(dict.fromkeys(said))):
            steps = [_step(it) for it in some]
            asked = [job_id for whole, _, number in steps for job_id in (whole, child_id(whole, number or 0))]
            known = await self._shown.jobs(asked, reach=caller.reach)
            found += (_look(known, *step) for step in steps)
        refused = [it for it in found if it.outcome is not Outcome.NOT_MATCHED]
        return list(dict.fromkeys(it.job_id for it in found if it.outcome is Outcome.NOT_MATCHED)), refused

    async def _with_those_left(
        self, ids: Sequence[JobId], refused: Sequence[JobOutcome], told: AsyncIterator[Some]
    ) -> AsyncIterator[Some]:
        """The outcomes in `told`, and those of all requested ids that the order did not stop."""
        left = dict.fromkeys(ids)
        for why_not in _pages(refused):
            yield tuple(why_not)
        async for each in told:
            for it in each:
                left.pop(it.job_id, None)
                child = parent_of(it.job_id)
                if child is not None:
                    left.pop(child[0], None)
            yield each
        for some in _pages(list(left)):
            arrays = [array[0] for it in some if (array := parent_of(it)) is not None]
            known = await self._shown.jobs([*(node_of(it)[0] for it in some), *arrays])
            yield tuple(_left(known, it) for it in some)


def _step(said: str) -> tuple[JobId, str, int | None]:
    found = _STEP.fullmatch(said)
    assert found is not None, f"{said!r} is no id of a job"
    number = found["number"]
    return JobId(found["whole"]), found["mark"] or "", None if number is None else int(number)


def _look(known: Mapping[JobId, Job], whole: JobId, mark: str, number: int | None) -> JobOutcome:
    """The outcome of a requested id before the selection. NOT_MATCHED: the job exists and may be selected.

    A child that its array has not spawned yet counts as existing.
    """
    job = known.get(whole)
    if number is None:
        return JobOutcome(job_id=whole, outcome=Outcome.NOT_FOUND) if job is None else _told(job, whole)
    of_node = mark == "#" or (mark == "." and job is not None and job.spec.nodes is not None)
    named = node_id(whole, number) if of_node else child_id(whole, number)
    if job is not None and of_node and node_view.exists(job, number):
        return _told(node_view.view(job, number), named)
    if job is not None and not of_node and is_parent(job) and number < size(job):
        return _told(known.get(named, job), named)
    return JobOutcome(job_id=named, outcome=Outcome.NOT_FOUND)


def _left(known: Mapping[JobId, Job], job_id: JobId) -> JobOutcome:
    whole, node = node_of(job_id)
    job, array = known.get(whole), parent_of(job_id)
    if job is None:
        note = NOT_SPAWNED.format(id=job_id) if array is not None and array[0] in known else ""
        return JobOutcome(job_id=job_id, outcome=Outcome.NOT_FOUND, note=note)
    return _told(job if node is None else node_view.view(job, node), job_id)


def _told(job: Job, job_id: JobId) -> JobOutcome:
    over = job.status in FINISHED
    became = Outcome.ALREADY_FINISHED if over else Outcome.NOT_MATCHED
    return JobOutcome(job_id=job_id, name=job.spec.name, status=job.status, outcome=became)


def _foretold(order: BulkStopOrder, it: Preview) -> JobOutcome:
    _, node = it.place
    job_id = it.job_id if node is None else node_id(it.job_id, node)
    became = outcome(order.kind, it.status, has_children=it.has_children)
    return JobOutcome(job_id=job_id, name=it.name, status=it.status, outcome=became)


def _pages(all_of: Sequence[T]) -> Iterator[Sequence[T]]:
    return (all_of[start : start + AT_ONCE] for start in range(0, len(all_of), AT_ONCE))


def _but(names: Collection[str] | None, visible: Collection[str]) -> list[str]:
    return sorted(it for it in names or () if it not in visible)


async def _none() -> AsyncIterator[Some]:
    return
    yield  # makes this function an async generator
