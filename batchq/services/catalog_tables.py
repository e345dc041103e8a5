"""The tables of the catalog and the mutex that serializes their changes: named resources, and job definitions.

All resources are in memory, except job definitions: the most recently read and written ones are cached (MAX_CACHED of
them), because every SubmitJob and DescribeJobs reads one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain.access import container_policy
from batchq.domain.access.accounts import Caller, Owner
from batchq.domain.catalog import DefinitionStatus, JobDefinition, Tags
from batchq.domain.ids import DefinitionRef
from batchq.errors import DefinitionNotFound, Forbidden, NotFound
from batchq.ports.catalog import CatalogStore, R
from batchq.system.host import DiskGuard

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=str)
MAX_CACHED = 1000
DEFINITIONS_SLICE = 100  # that are read in one turn of a user: of the largest ones 35 ms
Key = TypeVar("Key")
Value = TypeVar("Value")


class WriteLock:
    """Runs changes one at a time, in tasks that are shielded from the cancellation of their callers."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, name: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `change` once all earlier changes have ended, and return its result. `name`: the name of its task."""
        task = asyncio.create_task(self._in_turn(change), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return await asyncio.shield(task)

    def _end(self, task: asyncio.Task[Any]) -> None:
        """Forget the task. Its error counts as retrieved: a caller that was cancelled does not read it."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _in_turn(self, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._lock:
            return await change()


class HasWriteLock(Protocol):
    """An object whose changes are serialized."""

    write_lock: WriteLock


S = TypeVar("S", bound=HasWriteLock)


def serialized(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Decorator for a method that changes its object: runs it under the object's WriteLock.

    The lock is not reentrant: a decorated method that calls another decorated method of the object deadlocks.
    """

    @wraps(method)
    async def through(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write_lock.run(method.__name__, partial(method, self, *args, **kwargs))

    return through


class ResourceTable(Generic[K, R]):
    """All resources of one kind by name, in memory. Each change is stored first and then applied to the table."""

    def __init__(
        self,
        kind: type[R],
        *,
        write_lock: WriteLock,
        store: CatalogStore,
        changed: Callable[[], None],
        check: Callable[[R | None, R], None] = lambda _before, _after: None,
        check_deletion: Callable[[R], Awaitable[None]] | None = None,
        tagged: Callable[[Tags, Tags], Tags] = rules.tagged,
    ) -> None:
        """`changed` is called after each change, to schedule again.

        `check` is called before a resource (None: a new one) is replaced, and `check_deletion` before it is deleted;
        both raise Invalid or NotFound. `tagged` merges new tags into existing ones; raises Invalid.
        """
        self.write_lock = write_lock
        self.known: dict[K, R] = {}
        self._kind: type[R] = kind
        self._store = store
        self._changed = changed
        self._check: Callable[[R | None, R], None] = check
        self._check_deletion: Callable[[R], Awaitable[None]] | None = check_deletion
        self._tagged = tagged

    async def load(self) -> None:
        """Read all resources from the store. The table is empty before."""
        self.known.update((cast("K", resource.name), resource) for resource in await self._store.resources(self._kind))

    def get(self, name: K) -> R:
        """The resource with this name. Raises NotFound."""
        rules.require_existing(self._kind.__name__, [name], self.known)
        return self.known[name]

    @serialized
    async def create(self, resource: R, *, caller: Caller | None) -> R:
        """Store a new resource. Raises Invalid if the name is taken or there are too many tags; as `check`."""
        rules.require_free_name(resource.name, self.known)
        tagged = replace(resource, tags=self._tagged((), resource.tags))
        self._check(None, tagged)
        return await self.put(tagged, caller=caller)

    @serialized
    async def update(self, name: K, change: Callable[[R], R], *, caller: Caller) -> R:
        """Replace the resource by `change(resource)`, computed under the write lock. Raises NotFound; as `check`."""
        before = self.get(name)
        after = change(before)
        self._check(before, after)
        return await self.put(after, caller=caller)

    @serialized
    async def delete(self, name: K, *, caller: Caller) -> None:
        """Delete the resource. An unknown name is success. Raises as `check_deletion`."""
        if name not in self.known:
            return
        if self._check_deletion is not None:
            await self._check_deletion(self.known[name])
        await self._store.drop_resource(self._kind, name, caller=caller)
        del self.known[name]
        self._changed()

    @serialized
    async def tag(self, name: K, tags: Tags, *, caller: Caller) -> None:
        """Add or replace tags. Raises NotFound; Invalid if there would be too many tags."""
        before = self.get(name)
        await self.put(replace(before, tags=self._tagged(before.tags, tags)), caller=caller)

    @serialized
    async def untag(self, name: K, keys: Collection[str], *, caller: Caller) -> None:
        """Remove tags. Raises NotFound."""
        before = self.get(name)
        await self.put(replace(before, tags=rules.untagged(before.tags, keys)), caller=caller)

    async def put(self, resource: R, *, caller: Caller | None) -> R:
        """Store a resource, and apply it to the table. To be called under the write lock."""
        await self._store.put_resource(resource, caller=caller)
        return self.saved(resource)

    def saved(self, resource: R) -> R:
        """Apply a resource to the table that the store has already saved."""
        self.known[cast("K", resource.name)] = resource  # K is the type of R's names
        self._changed()
        return resource


class DefinitionCache:
    """A bounded cache over the store. A lock serializes reads of the store with writes, so entries are never stale."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._revisions: dict[DefinitionRef, JobDefinition] = {}
        self._newest: dict[str, int] = {}

    async def get(self, ref: DefinitionRef) -> JobDefinition | None:
        """The revision `ref`, ACTIVE or not; None if it does not exist."""
        return self._revisions.get(ref) or await self._read(ref)

    async def newest_active(self, name: str) -> JobDefinition | None:
        revision = self._newest.get(name)
        if revision is not None:
            return await self.get(DefinitionRef(name=name, revision=revision))
        return await self._read_newest(name)

    async def add(self, definition: JobDefinition, *, caller: Caller) -> JobDefinition:
        async with self._lock:
            made = await self._store.add_definition(definition, caller=caller)
            return self._add_entry(made, newest=made.status is DefinitionStatus.ACTIVE)

    async def put(self, definition: JobDefinition, *, caller: Caller) -> None:
        async with self._lock:
            await self._store.put_definition(definition, caller=caller)
            self._add_entry(definition, newest=False)
            self._newest.pop(definition.ref.name, None)

    async def _read(self, ref: DefinitionRef) -> JobDefinition | None:
        async with self._lock:
            found = await self._store.definition(ref)
            return found and self._add_entry(found, newest=False)

    async def _read_newest(self, name: str) -> JobDefinition | None:
        async with self._lock:
            found = await self._store.newest_active(name)
            return found and self._add_entry(found, newest=True)

    def _add_entry(self, definition: JobDefinition, *, newest: bool) -> JobDefinition:
        _add_newest(self._revisions, definition.ref, definition)
        if newest:
            _add_newest(self._newest, definition.ref.name, definition.ref.revision)
        return definition


def _add_newest(known: dict[Key, Value], key: Key, value: Value) -> None:
    """Add an entry as the newest; beyond MAX_CACHED entries, drop the oldest."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MAX_CACHED:
        del known[next(iter(known))]


class JobDefinitionService:
    """Job definitions with access control. Changes are serialized.

    A name belongs, with all its revisions, to the user who first registered it. Users of the owner's account and of
    accounts below it may use the definitions. Callers who reach the owner may change them. For all other users the
    definitions are treated as missing; only an attempt to register the name reveals that it is taken.
    """

    def __init__(self, *, write_lock: WriteLock, store: CatalogStore, disk_guard: DiskGuard) -> None:
        self.write_lock = write_lock
        self._store = store
        self._disk_guard = disk_guard
        self._cache = DefinitionCache(store)

    @serialized
    async def register(self, definition: JobDefinition, *, caller: Caller) -> JobDefinition:
        """Store the definition as the next revision of its name; its own revision is ignored.

        Raises DiskFull; Forbidden; Invalid.
        """
        self._disk_guard.check()
        owner = await self._store.definition_owner(definition.ref.name) or caller.owner
        _require_access(owner, f"the job definition name {definition.ref.name}", caller)
        container_policy.require_allowed_containers(definition.nodes, caller)
        author = None if caller.owner == owner else caller.owner
        tags = rules.tagged((), definition.tags)
        return await self._cache.add(replace(definition, tags=tags, owner=owner, registered_by=author), caller=caller)

    @serialized
    async def deregister(self, ref: DefinitionRef, *, caller: Caller) -> None:
        """Make a revision INACTIVE, so that no new job uses it. Raises Forbidden.

        A revision that is unknown or INACTIVE is success.
        """
        known = await self.get_visible(ref, caller=caller)
        if known is not None:
            _require_access(known.owner, f"the job definition {ref}", caller)
        if known is not None and known.status is DefinitionStatus.ACTIVE:
            await self._cache.put(replace(known, status=DefinitionStatus.INACTIVE), caller=caller)

    async def find(self, name: str, revision: int | None, *, caller: Caller) -> JobDefinition:
        """The definition for a new job. `revision` None: the newest ACTIVE one. Raises DefinitionNotFound."""
        if revision is None:
            shown_name, found = name, await self._cache.newest_active(name)
        else:
            ref = DefinitionRef(name=name, revision=revision)
            shown_name, found = str(ref), await self._cache.get(ref)
        if found is None or found.status is not DefinitionStatus.ACTIVE or not caller.may_use(found.owner):
            raise DefinitionNotFound(f"JobDefinition name {shown_name} does not exist or is not in ACTIVE status")
        return found

    async def get(self, ref: DefinitionRef) -> JobDefinition | None:
        """The revision `ref` without access control, ACTIVE or not; None if it does not exist."""
        return await self._cache.get(ref)

    async def get_visible(self, ref: DefinitionRef, *, caller: Caller) -> JobDefinition | None:
        """The revision `ref`, ACTIVE or not; None if it does not exist or is not visible to the caller."""
        found = await self._cache.get(ref)
        return found if found is not None and caller.may_use(found.owner) else None

    async def page(
        self, *, name: str | None, status: str | None, limit: int, after: DefinitionRef | None, caller: Caller
    ) -> tuple[JobDefinition, ...]:
        """The first `limit` visible revisions after `after`: by name, those of a name newest first. None: no filter.

        They are read in slices: between two slices other users take their turns at the database.
        """
        found: tuple[JobDefinition, ...] = ()
        while True:
            slice_limit = min(DEFINITIONS_SLICE, limit - len(found))
            page = await self._store.definitions(
                name=name, status=status, limit=slice_limit, after=after, visibility=caller.usable
            )
            found += page
            if len(page) < slice_limit or len(found) == limit:
                return found
            after = page[-1].ref

    @serialized
    async def tag(self, ref: DefinitionRef, tags: Tags, *, caller: Caller) -> None:
        """Add or replace tags. Raises NotFound; Forbidden."""
        before = await self._must_exist(ref, caller)
        await self._cache.put(replace(before, tags=rules.tagged(before.tags, tags)), caller=caller)

    @serialized
    async def untag(self, ref: DefinitionRef, keys: Collection[str], *, caller: Caller) -> None:
        before = await self._must_exist(ref, caller)
        await self._cache.put(replace(before, tags=rules.untagged(before.tags, keys)), caller=caller)

    async def _must_exist(self, ref: DefinitionRef, caller: Caller) -> JobDefinition:
        found = await self.get_visible(ref, caller=caller)
        if found is None:
            raise NotFound(f"JobDefinition {ref} not found.")
        _require_access(found.owner, f"the job definition {ref}", caller)
        return found


def _require_access(owner: Owner, what: str, caller: Caller) -> None:
    """Raises Forbidden unless the caller reaches the owner. The error text does not name the owner."""
    if not caller.reaches(owner):
        raise Forbidden(
            f"User {caller.user} is not authorized to perform {caller.operation}: {what} belongs to another user."
        )
