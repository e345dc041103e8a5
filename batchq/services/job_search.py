"""The job search service: the jobs of all queues and statuses that match a query, as far as the caller may see them."""

from collections.abc import Callable, Collection, Iterator

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, AccountName, Caller, Directory
from batchq.domain.access.permissions import may_see_account, may_see_user
from batchq.engine.engine import Engine
from batchq.errors import NotFound
from batchq.ports.job_search import JobPage, JobSearchQuery
from batchq.ports.jobs import JobStore
from batchq.services.pending_orders_view import PendingOrdersView


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
        self._directory = directory
        self._queues = queues

    async def search(self, query: JobSearchQuery, *, caller: Caller) -> JobPage:
        """One page. The children of a stopped array are shown as ended before their rows are written (decision 0027).

        Raises NotFound if nothing matches and the query names a queue, user or account that the caller does not see.
        So finished jobs of a deleted queue, user or account are found.
        """
        page = await self._projected.search(replace(query, **self._scope(query, caller)))
        if not page.jobs and page.next is None and query.before is None:
            self._check_names(query, caller)
        return page

    def _scope(self, query: JobSearchQuery, caller: Caller) -> dict[str, object]:
        directory, accounts = self._directory(), None
        if query.accounts is not None:
            accounts = frozenset(below for it in query.accounts for below in directory.below(AccountName(it)))
        return {"accounts": accounts, "visibility": caller.visibility}

    def _check_names(self, query: JobSearchQuery, caller: Caller) -> None:
        names = Names(queues=query.queues, users=query.users, accounts=query.accounts)
        for kind, name in hidden_names(names, self._directory(), self._queues(caller), caller=caller):
            raise name_not_found(kind, name)


class Names(Struct, frozen=True, kw_only=True):
    """The names in a request; None: the request does not filter by them."""

    queues: Collection[str] | None
    users: Collection[str] | None
    accounts: Collection[str] | None


def hidden_names(
    names: Names, directory: Directory, queues: Collection[str], *, caller: Caller
) -> Iterator[tuple[str, str]]:
    """The kind and the name of each queue, user and account that the caller cannot see. `queues`: the visible ones."""
    users = {caller.user, *(name for name, user in directory.users.items() if may_see_user(caller, user))}
    accounts = {caller.account, *(name for name in (ROOT, *directory.accounts) if may_see_account(caller, name))}
    for kind, named, visible in (
        ("JobQueue", names.queues, queues),
        ("User", names.users, users),
        ("Account", names.accounts, accounts),
    ):
        yield from ((kind, it) for it in sorted(named or ()) if it not in visible)


def name_not_found(kind: str, name: str) -> NotFound:
    return NotFound(f"{kind} {name[:128]} not found.")
