"""Reads of jobs as callers see them: by id, by a search, and by a name that is unique among the jobs of a user.

The effects of orders to arrays that are still to be written are shown. Decision 0027.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from uuid import UUID, uuid4

from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, AccountName, Caller, Directory, UserName, Visibility
from batchq.domain.access.permissions import may_see_account, may_see_user
from batchq.domain.enums import FINISHED, QUEUED, Status
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId, JobId, parent_of, stream_name
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.arrays import is_parent, is_passing_hold, size, unspawned_child
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.domain.lifecycle.views import PendingArrayOrders
from batchq.domain.scheduling.capacity import is_queued_for_placement
from batchq.engine.engine import Engine
from batchq.errors import Invalid, NotFound
from batchq.ports.catalog import NeedQuery
from batchq.ports.groups import GroupQuery
from batchq.ports.job_search import JobCount, JobPage, ListFacts, ListFactsQuery, PageQuery
from batchq.ports.jobs import ChildRun, JobStore, joined_runs
from batchq.ports.queue import PlacedJobs
from batchq.services.reruns import newest_reruns, repeatable, repeated_ids

MAX_EXAMINED = 100  # jobs of other users with the same name
SLICE = 100  # jobs that are read in one turn of a user: of large jobs 40 ms
_VERSION = "8"  # RFC 9562: a UUID whose bits the application chooses
TRAINING_GROUP = "/aws/sagemaker/TrainingJobs"


def job_not_found(job_id: JobId, array: Job | None) -> NotFound:
    """The error for a job that does not exist.

    `array`: the array of a child; None for any other job, and if the caller may not see the array.
    """
    child = parent_of(job_id)
    is_child = array is not None and child is not None and is_parent(array) and child[1] < size(array)
    if array is None or not is_child or array.status not in FINISHED:
        return NotFound(f"Job {job_id} not found.")
    return NotFound(f"Job {job_id} does not exist: its array ended ({array.status}) before it created this child.")


def _unspawned(array: Job, *, first: int) -> tuple[ChildRun, ...]:
    """The children from index `first` on as `unspawned_child` shows them; those with an order of their own end."""
    stopped = {index for order in array.child_orders for index in order.indices}
    if not stopped:
        return (ChildRun(array.status, first, size(array)),) if first < size(array) else ()
    each = range(first, size(array))
    return tuple(ChildRun(Status.FAILED if number in stopped else array.status, number, number + 1) for number in each)


class PendingOrdersView:
    """Reads of jobs with the effects of orders that are not yet applied to the children of arrays. Decision 0027.

    The state of the orders is taken before the store is read, so that a job that was shown as ended never appears
    unfinished again.
    """

    def __init__(
        self,
        store: JobStore,
        pending_orders: Callable[[], PendingArrayOrders],
        start_obstacle: Callable[[], str | None],
    ) -> None:
        """`pending_orders`: the arrays with pending orders, as of the last commit.

        `start_obstacle`: the statusReason of RUNNABLE jobs while no job can start, else None. It is the same for all of
        them, so it is not stored with each job.
        """
        self._store = store
        self._pending_orders = pending_orders
        self._start_obstacle = start_obstacle

    async def jobs(self, ids: Sequence[JobId], *, visibility: Visibility | None = None) -> Mapping[JobId, Job]:
        if not ids:
            return {}
        pending = self._pending_orders()
        found = await self._store.jobs(ids, visibility=visibility)
        return {job.id: job for job in self._project(pending, tuple(found.values()))}

    async def placed_jobs(self, ids: Sequence[JobId], *, visibility: Visibility | None) -> PlacedJobs:
        """As `QueueReader.placed_jobs`."""
        pending = self._pending_orders()
        found = await self._store.placed_jobs(ids, visibility=visibility)
        return replace(found, jobs={job.id: job for job in self._project(pending, tuple(found.jobs.values()))})

    async def job(self, job_id: JobId, *, visibility: Visibility | None) -> Job | None:
        """One job, also a child that its array has not spawned yet; None if there is no such job, or it is hidden."""
        pending, child = self._pending_orders(), parent_of(job_id)
        ids = [job_id] if child is None else [job_id, child[0]]
        found = await self._store.jobs(ids, visibility=visibility)
        job = found.get(job_id)
        if job is None and child is not None and child[0] in found:
            job = unspawned_child(found[child[0]], job_id)
        return None if job is None else self._project(pending, (job,))[0]

    async def awaits_hold(self, job: Job) -> bool:
        """Whether the job is a child to which the hold of its array has not been applied yet."""
        if job.child is None:
            return False
        array = await self.job(job.child.parent, visibility=None)
        return array is not None and array.hold is not None and is_passing_hold(array, job.child.index)

    async def missing(self, job_id: JobId, *, visibility: Visibility | None) -> NotFound:
        """The error for a job that `job` does not find; it names an array that ended before it created the child."""
        child = parent_of(job_id)
        found = {} if child is None else await self._store.jobs([child[0]], visibility=visibility)
        return job_not_found(job_id, None if child is None else found.get(child[0]))

    async def list(self, query: PageQuery) -> JobPage:
        return await self._page(self._store.list, query)

    async def search(self, query: PageQuery) -> JobPage:
        return await self._page(self._store.search, query)

    async def counts(self, queries: Sequence[PageQuery]) -> tuple[JobCount, ...]:
        pending = self._pending_orders()
        return await self._store.counts([_with_pending(query, pending) for query in queries])

    async def list_facts(self, query: ListFactsQuery) -> ListFacts:
        pending = self._pending_orders()
        return await self._store.list_facts(
            replace(query, counts=[_with_pending(count, pending) for count in query.counts])
        )

    async def _page(self, read: Callable[[PageQuery], Awaitable[JobPage]], query: PageQuery) -> JobPage:
        """The page, read in slices: between two slices other users take their turns at the database."""
        jobs: tuple[Job, ...] = ()
        while True:
            pending, limit = self._pending_orders(), min(SLICE, query.limit - len(jobs))
            page = await read(_with_pending(replace(query, limit=limit), pending))
            jobs += self._project(pending, page.jobs)
            if page.next is None or len(page.jobs) < limit or len(jobs) >= query.limit:
                return replace(page, jobs=jobs)
            query = replace(query, before=page.next)

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]:
        pending = self._pending_orders()
        return self._project(pending, await self._store.list_needing(replace(query, ended_arrays=pending.ended_arrays)))

    async def child_runs(self, array: Job) -> tuple[ChildRun, ...]:
        """The statuses of the children of `array`, by index, also of those that it has not spawned yet."""
        pending = self._pending_orders()
        runs = await self._store.child_runs(array.id)
        if array.status not in FINISHED:
            runs += _unspawned(array, first=runs[-1].end if runs else 0)
        if array.id in pending.parents:
            runs = tuple(run._replace(status=Status.FAILED) if run.status in QUEUED else run for run in runs)
        return joined_runs(runs)

    def _project(self, pending: PendingArrayOrders, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        shown = tuple(map(pending.project, jobs)) if pending.parents else jobs
        obstacle = self._start_obstacle()
        if obstacle is None:
            return shown
        return tuple(replace(job, status_reason=obstacle) if is_queued_for_placement(job) else job for job in shown)


def _with_pending(query: PageQuery, pending: PendingArrayOrders) -> PageQuery:
    stopped = frozenset(job.sequence for job in pending.parents.values())
    return replace(query, ended_arrays=pending.ends, stopped_arrays=stopped)


class JobSearchService:
    """Searches for jobs. Jobs, queues, users and accounts that are not visible to the caller are treated as missing."""

    def __init__(
        self,
        *,
        engine: Engine,
        store: JobStore,
        directory: Callable[[], Directory],
        queues: Callable[[Caller], Collection[str]],
    ) -> None:
        """`queues`: the names of the queues that are visible to a caller."""
        self._projected = PendingOrdersView(store, engine.pending_array_orders, engine.start_obstacle)
        self._store = store
        self._directory = directory
        self._queues = queues

    async def search(self, query: PageQuery, *, caller: Caller) -> JobPage:
        """One page. The children of a stopped array are shown as ended before their rows are written (decision 0027).

        Raises NotFound if nothing matches and the query names a queue, user or account that the caller does not see.
        So finished jobs of a deleted queue, user or account are found.
        """
        directory = self._directory()
        selection = visible_selection(query.selection, directory, caller)
        page = await self._projected.search(replace(query, selection=selection))
        if not page.jobs and page.next is None and query.before is None:
            named = replace(query.selection, users=selection.users)
            for kind, name in hidden_names(named, directory, self._queues(caller), caller=caller):
                raise name_not_found(kind, name)
        return page

    async def counts(self, queries: Sequence[PageQuery], *, caller: Caller) -> tuple[JobCount, ...]:
        """How many jobs match each query that the caller may see, up to the limit of the query."""
        return await self._projected.counts(self._visible(queries, caller)) if queries else ()

    async def list_facts(
        self, jobs: Iterable[Job], *, counts: Sequence[PageQuery], groups: GroupQuery | None, caller: Caller
    ) -> ListFacts:
        """What a list shows beside its `jobs`: their reruns as of `reruns`, counts as of `counts`, and groups.

        `groups`: has the visibility; None: no groups.
        """
        whole = repeatable(jobs)
        query = ListFactsQuery(counts=self._visible(counts, caller), groups=groups, repeated=repeated_ids(whole))
        facts = await self._projected.list_facts(query)
        return replace(facts, reruns=newest_reruns(whole, facts.reruns))

    def _visible(self, queries: Sequence[PageQuery], caller: Caller) -> list[PageQuery]:
        directory = self._directory()
        return [replace(query, selection=visible_selection(query.selection, directory, caller)) for query in queries]

    async def groups(self, ids: Collection[GroupId], *, caller: Caller) -> Mapping[GroupId, Group]:
        """The groups with these ids, as far as they are visible."""
        found = await self._store.groups(ids)
        return {group_id: group for group_id, group in found.items() if caller.reaches(group.owner)}

    async def newest_groups(self, query: GroupQuery) -> Sequence[Group]:
        """The groups that match, the newest first. The query has the visibility."""
        return await self._store.newest_groups(query)

    async def reruns(self, jobs: Iterable[Job]) -> Mapping[JobId, JobId]:
        """The newest job that repeats each of these finished jobs, by their ids; others are omitted.

        Without one, a child counts as repeated by the newest job that repeats its array.
        """
        whole = repeatable(jobs)
        return newest_reruns(whole, await self._store.reruns(repeated_ids(whole))) if whole else {}


def visible_selection(selection: JobSelection, directory: Directory, caller: Caller) -> JobSelection:
    """The selection for the store: visible jobs only, with the accounts below the named ones.

    A name of no visible user stands for the only visible user whose name differs in case.
    """
    accounts, users = selection.accounts, selection.users
    if accounts is not None:
        accounts = frozenset(below for account in accounts for below in directory.below(AccountName(account)))
    if users is not None:
        visible = visible_users(directory, caller)
        users = frozenset(_in_any_case(user, visible) for user in users)
    return replace(selection, accounts=accounts, users=users, visibility=caller.visibility)


def _in_any_case(name: str, visible: Collection[str]) -> str:
    found = [name] if name in visible else [text for text in visible if text.casefold() == name.casefold()]
    return found[0] if len(found) == 1 else name


def hidden_names(
    selection: JobSelection, directory: Directory, queues: Collection[str], *, caller: Caller
) -> Iterator[tuple[str, str]]:
    """The kind and the name of each queue, user and account in the selection that the caller cannot see.

    `queues`: the visible ones.
    """
    users = visible_users(directory, caller)
    accounts = {caller.account, *(name for name in (ROOT, *directory.accounts) if may_see_account(caller, name))}
    for kind, named, visible in (
        ("JobQueue", selection.queues, queues),
        ("User", selection.users, users),
        ("Account", selection.accounts, accounts),
    ):
        yield from ((kind, text) for text in sorted(named or ()) if text not in visible)


def visible_users(directory: Directory, caller: Caller) -> set[UserName]:
    """The names of the users that the caller may see, the caller included."""
    return {caller.user, *(name for name, user in directory.users.items() if may_see_user(caller, user))}


def name_not_found(kind: str, name: str) -> NotFound:
    return NotFound(f"{kind} {name[:128]} not found.")


class ReservedNames:
    """The names of jobs that are being created: two concurrent requests must not both find a name free."""

    def __init__(self) -> None:
        self._names: set[tuple[str, ...]] = set()

    @contextmanager
    def reserved(self, *name: str) -> Iterator[bool]:
        """Reserve a name: that of the job after those that contain it. Yields False if it is reserved already."""
        if name in self._names:
            yield False
            return
        self._names.add(name)
        try:
            yield True
        finally:
            self._names.discard(name)


class NamedJobService:
    """Jobs with unique names. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, search: JobSearchService, *, is_named: Callable[[Job], bool]) -> None:
        """`is_named`: whether a job with the right name is one that the dialect created and has not deleted."""
        self._search = search
        self._is_named = is_named

    async def find(self, name: str, *, caller: Caller) -> Job | None:
        """The job with this name: the caller's own, else the newest one that the caller may see."""
        own = await self.own(name, caller=caller)
        if own is not None:
            return own
        return await self._newest(name, _hash(name, 8), caller, limit=MAX_EXAMINED)

    async def own(self, name: str, *, caller: Caller) -> Job | None:
        """The caller's own job with this name."""
        found = await self._newest(name, _prefix(name, caller.user), caller, limit=1)
        return found if found is not None and found.spec.owner.user == caller.user else None

    async def _newest(self, name: str, prefix: str, caller: Caller, *, limit: int) -> Job | None:
        page = await self._search.search(
            PageQuery(selection=JobSelection(id_prefix=prefix), limit=limit), caller=caller
        )
        return next((job for job in page.jobs if job.spec.name == name and self._is_named(job)), None)


def new_id(name: str, user: UserName) -> JobId:
    """The id of a new job of `user` with this name."""
    fixed = _prefix(name, user).replace("-", "")
    return JobId(str(UUID(hex=fixed + uuid4().hex[len(fixed) :])))


def _prefix(name: str, user: UserName) -> str:
    """The beginning of the ids of all jobs of `user` with this name: 60 bits."""
    owner = _hash(f"{user}/{name}", 7)
    return f"{_hash(name, 8)}-{owner[:4]}-{_VERSION}{owner[4:]}"


def _hash(text: str, digits: int) -> str:
    return sha256(text.encode()).hexdigest()[:digits]


class TrainingLogStreams:
    """SageMaker's log streams `JOB/algo-INSTANCE-TIME` in TRAINING_GROUP: other names of streams of `/aws/batch/job`.

    INSTANCE counts from 1; TIME is when the attempt was placed, in milliseconds since 1970, so that each attempt has
    streams of its own. Jobs that are not visible to the caller are treated as missing.
    """

    def __init__(self, named: NamedJobService) -> None:
        self._named = named

    async def names(self, prefix: str, *, caller: Caller) -> Mapping[str, str]:
        """The streams whose SageMaker names begin with `prefix`, as names of `/aws/batch/job`; sorted.

        Streams of containers that never started are included, although they do not exist. Raises Invalid unless the
        prefix has a whole job name.
        """
        name, slash, _ = prefix.partition("/")
        if not slash:
            raise Invalid(f"In {TRAINING_GROUP} a logStreamNamePrefix must begin with the name of a job and a slash.")
        job = await self._named.find(name, caller=caller)
        found = {} if job is None else _streams(job)
        return {text: found[text] for text in sorted(found) if text.startswith(prefix)}

    async def resolve(self, name: str, *, caller: Caller) -> str:
        """The name in `/aws/batch/job` of the stream with a SageMaker name. Raises NotFound."""
        found = await self.names(name, caller=caller) if "/" in name else {}
        if name not in found:
            raise NotFound("The specified log stream does not exist.")
        return found[name]


def _streams(job: Job) -> dict[str, str]:
    """The names in `/aws/batch/job` by SageMaker's."""
    placed = {attempt.number: attempt.placed_at or job.created_at for attempt in job.all_attempts}
    return {
        f"{job.spec.name}/algo-{tag.node + 1}-{int(placed[tag.attempt].timestamp() * 1000)}": stream_name(
            job.spec.definition.name, tag
        )
        for tag in container_tags(job)
    }
