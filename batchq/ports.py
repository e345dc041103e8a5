"""The outside, as the inside needs it: four narrow ports and a log archive."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    ConsumableUpdate,
    JobDefinition,
    JobQueue,
    PolicyName,
    SchedulingPolicy,
)
from batchq.domain.clock_shift import ClockShift
from batchq.domain.container import Resources
from batchq.domain.fairshare import ShareKey, ShareUse
from batchq.domain.job import Job
from batchq.domain.names import ConsumableName, DefinitionRef, JobId, QueueName, Tag
from batchq.domain.people import Caller, Owner, Reach
from batchq.sweeping import SweepStore
from batchq.values import (
    Age,
    Changes,
    ChildQuery,
    ClockAnchor,
    EngineIdentity,
    Found,
    JobQuery,
    Launch,
    LogLine,
    LogPage,
    LogStream,
    Looked,
    Made,
    Moment,
    NeedQuery,
    Restoration,
    StatusChanged,
    SubmissionKey,
)
from batchq.waiting import WaitingStore


class Clock(Protocol):
    def now(self) -> datetime:
        """The time, aware UTC. It never goes back, and a jump of the machine's clock does not move it."""

    async def sleep(self, seconds: float) -> None: ...


class Boot(Struct, frozen=True, kw_only=True):
    """One running of the machine, from its boot to its end."""

    #: The same for all programs until the machine is booted again.
    id: str
    #: When that was, by the clock that is asked; by a clock that was set meanwhile it is another moment.
    at: datetime


class BootClock(Clock, Protocol):
    """A Clock of which two can be compared that were started in one boot."""

    def boot(self) -> Boot | None:
        """None where the system does not tell boots apart."""


class ClockStore(Protocol):
    """What the clock of the last server was. Both methods raise StoreFailed."""

    async def clock_anchor(self) -> ClockAnchor | None:
        """None before the first server."""

    async def anchor_clock(self, anchor: ClockAnchor, shift: ClockShift | None) -> None:
        """Save it, and move by `shift` all stored times on which decisions depend, in one transaction."""


class JobStore(ClockStore, WaitingStore, SweepStore, Protocol):
    """Jobs, durable. One writer: the engine's loop. Reads see every commit that has returned.

    Every method raises StoreFailed when the database does not do it; a failed commit has changed nothing.
    """

    async def commit(self, changes: Changes) -> None:
        """Save all of it or nothing, durably. Raises Conflict when a job is not at the version it names."""

    async def jobs(self, ids: Sequence[JobId], *, reach: Reach | None = None) -> Mapping[JobId, Job]:
        """Those of them that exist, however many are asked for. What is outside a reach is as if it did not."""

    async def active(self) -> tuple[Job, ...]:
        """Every job that is STARTING or RUNNING."""

    async def dependents(self, ids: Sequence[JobId], *, after: int = -1, limit: int | None = None) -> tuple[Job, ...]:
        """SUBMITTED and PENDING jobs that depend on one of these, by order, the first `limit` behind `after`."""

    async def ended_dependencies(self) -> tuple[JobId, ...]:
        """Jobs that others wait for and that have ended, and arrays that others wait for."""

    async def waiting_for_others(self) -> int:
        """How many times one of those waits for a job: once for each that it names."""

    async def parents_at_work(self) -> tuple[Job, ...]:
        """Array parents that have children to spawn, or to tell of an order."""

    async def children(self, parent: JobId, first: int, limit: int) -> tuple[Job, ...]:
        """The children of an array that are not finished, by index, from `first` on, among the next `limit` indices."""

    async def shares(self) -> Mapping[ShareKey, ShareUse]:
        """What is kept of each share that ever had a job."""

    async def used_up(self) -> Mapping[ConsumableName, int]:
        """How much of each NON_REPLENISHABLE resource jobs have used up."""

    async def restoration(self) -> Restoration:
        """What is kept of it; nothing where the data is no backup's."""

    async def engine_id(self) -> str | None:
        """The container engine that the unfinished attempts are on, None before the first."""

    async def submissions(self, keys: Sequence[SubmissionKey]) -> Mapping[SubmissionKey, JobId]:
        """Those of them that are remembered."""

    async def last_order(self) -> int:
        """The highest `order` given so far, -1 before the first; an array has taken those of all its children."""

    async def list(self, query: JobQuery) -> tuple[Job, ...]:
        """Jobs of a queue: no children of arrays among them."""

    async def list_children(self, query: ChildQuery) -> tuple[Job, ...]: ...

    async def list_needing(self, query: NeedQuery) -> tuple[Job, ...]: ...

    async def unfinished_in(self, queue: QueueName) -> int:
        """How many jobs of a queue are not SUCCEEDED or FAILED."""

    async def check(self) -> None:
        """Raise StoreFailed if it does not answer; StoreLost if it never will again."""

    async def damaged(self) -> tuple[JobId, ...]:
        """Jobs that are not over and whose record could not be read: what is told of them is what was left of it."""

    async def history(self, job_id: JobId) -> tuple[Moment, ...]:
        """The job's walk through the statuses, oldest first."""

    async def stream(self, name: str) -> LogStream | None: ...

    async def streams(
        self, *, prefix: str = "", after: str = "", limit: int = 50, reach: Reach | None = None
    ) -> tuple[LogStream, ...]:
        """Log streams by name, ascending, whose names begin with `prefix` and come after `after`."""

    async def newest_streams(
        self, *, limit: int = 50, before: Age | None = None, reach: Reach | None = None
    ) -> tuple[LogStream, ...]:
        """Log streams, the last created first, and those of one moment by name, the last first; behind `before`."""


class CatalogStore(Protocol):
    """Compute environments, queues, job definitions and the like, durable. Each write is a transaction of its own.

    A write for a `caller` saves the caller's audit record in the same transaction; None: the server itself writes.
    """

    async def policies(self) -> tuple[SchedulingPolicy, ...]: ...

    async def put_policy(self, policy: SchedulingPolicy, *, caller: Caller | None) -> None:
        """Insert it, or replace the one of its name."""

    async def drop_policy(self, name: PolicyName, *, caller: Caller | None) -> None: ...

    async def consumables(self) -> tuple[ConsumableResource, ...]: ...

    async def put_consumable(self, resource: ConsumableResource, *, caller: Caller | None) -> None: ...

    async def update_consumable(
        self, resource: ConsumableResource, update: ConsumableUpdate, *, forget_before: datetime, caller: Caller | None
    ) -> None:
        """Replace it, and remember what update did so, in one. Updates older than `forget_before` may be forgotten."""

    async def consumable_update(self, name: ConsumableName, token: str) -> ConsumableUpdate | None:
        """The update of this token, if it is remembered."""

    async def drop_consumable(self, name: ConsumableName, *, caller: Caller | None) -> None:
        """With it go the updates that are remembered of it."""

    async def environments(self) -> tuple[ComputeEnvironment, ...]: ...

    async def queues(self) -> tuple[JobQueue, ...]: ...

    async def put_environment(self, environment: ComputeEnvironment, *, caller: Caller | None) -> None:
        """Insert it, or replace the one of its name."""

    async def put_queue(self, queue: JobQueue, *, caller: Caller | None) -> None: ...

    async def drop_environment(self, name: str, *, caller: Caller | None) -> None: ...

    async def drop_queue(self, name: str, *, caller: Caller | None) -> None: ...

    async def add_definition(self, definition: JobDefinition, *, caller: Caller | None) -> JobDefinition:
        """Save it as the next revision of its name (its own `ref.revision` is ignored), and answer it as saved.

        Revisions of a name count from 1 without gaps, also when many are added at once.
        """

    async def put_definition(self, definition: JobDefinition, *, caller: Caller | None) -> None:
        """Replace the revision of this ref."""

    async def definition(self, ref: DefinitionRef) -> JobDefinition | None: ...

    async def newest_active(self, name: str) -> JobDefinition | None: ...

    async def definition_owner(self, name: str) -> Owner | None:
        """Whose the name is: that of its first revision. None for a name that nobody has registered."""

    async def definitions(
        self,
        *,
        name: str | None,
        status: str | None,
        limit: int,
        after: DefinitionRef | None,
        reach: Reach | None = None,
    ) -> tuple[JobDefinition, ...]:
        """By name ascending, then revision ascending, from the first beyond `after`."""

    async def flag(self, name: str) -> bool:
        """Whether this was ever set."""

    async def set_flag(self, name: str) -> None:
        """Set it for ever: something that happens once in the life of the data has happened."""


class ContainerCalls(Protocol):
    """What is asked about single containers. Knows only those of its own instance; never touches any other.

    Every method may raise EngineUnknown: the call may have been carried out, or may be later. No method waits for a
    container to end, and none takes an outcome from anything but an inspection.
    """

    async def create(self, launch: Launch) -> Made:
        """Make the container, named by its tag; one that is there already is adopted.

        Raises ImageMissing, NameTaken, StartRefused, also for what its allowance has not; ContainerGone when the one
        that the launch names is not there.
        """

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        """Get the image; many calls for one image at once pull it once. Raises ImageUnavailable.

        A pull whose callers were all cancelled is stopped. No account's pulls delay those of another.
        """

    async def start(self, tag: Tag) -> None:
        """Start a container that is CREATED: the one that `create` answered. Raises StartRefused; ContainerGone."""

    async def inspect(self, tag: Tag) -> Found | None:
        """The truth about one container, None if there is none."""

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        """Deliver it, or the image's StopSignal, or SIGTERM; a paused container is resumed. Raises ContainerGone."""

    async def kill(self, tag: Tag) -> None:
        """SIGKILL. Raises ContainerGone when there is nothing to kill."""

    async def remove(self, tag: Tag) -> None:
        """Remove it with its anonymous volumes, alive or dead. One that is not there is success.

        With the last container of an attempt go its network and the volumes its containers shared.
        """


class ContainerRuntime(ContainerCalls, Protocol):
    """Where containers run. Every method may raise EngineUnknown."""

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        """All that it wrote, as `logs` tells it; None if it wrote nothing, and is removed by it. Raises ContainerGone.

        A runtime may also leave one that wrote nothing.
        """

    async def survey(self) -> tuple[Found, ...]:
        """Every container of this instance, in whatever state."""

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | Looked]]:
        """The engine's news of containers that ended: a hint, which may be missing, late, or twice.

        With it comes what an inspection found since, or the tag alone where none was made, or answered.

        Entered, it listens. The iterator ends (without an error) when the engine closes the stream.
        """

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        """What the container wrote, stamped later than `after`. Raises ContainerGone."""

    async def capacity(self) -> Resources:
        """What the engine's machine has in all."""

    async def lost_before(self) -> datetime | None:
        """Containers that began before this have not outlived the engine, or the machine. None if it cannot be told."""

    async def identity(self) -> EngineIdentity:
        """Which engine answers."""

    async def close(self) -> None: ...


class LogArchive(Protocol):
    """Output kept beyond its container, one append-only log a container, by its log id (32 hex digits).

    Every method raises Invalid for what is no log id, and StoreFailed when the disk does not do it.
    """

    async def last(self, log_id: str) -> int:
        """The latest stamp kept, 0 if there is none."""

    async def append(self, log_id: str, lines: Sequence[LogLine]) -> int:
        """Keep them, durably. Killed half-way, it has kept the first few of them, each whole. Returns their bytes."""

    async def annotate(self, log_id: str, line: LogLine) -> None:
        """Store a line of batchq's own among the container's, stamped 0, which no line of a container is."""

    async def read(self, log_id: str, *, position: int, limit: int, max_bytes: int) -> LogPage:
        """Lines from a position on, oldest first; one at least, if there is one. A log nobody wrote to is empty.

        Raises Invalid when no line begins there and the log does not end there.
        """

    async def read_back(self, log_id: str, *, position: int | None, limit: int, max_bytes: int) -> LogPage:
        """The lines that end at a position (None: the end of the log), oldest first. Raises as `read`."""

    async def seek(self, log_id: str, at: int) -> int:
        """The position of the first line at or after a time in nanoseconds; the end of the log if there is none."""

    async def size(self, log_id: str) -> int:
        """Bytes kept."""

    async def total(self, log_ids: Sequence[str]) -> int:
        """Bytes kept of all these logs."""


class EventBus(Protocol):
    def publish(self, change: StatusChanged) -> None:
        """Tell every listener; none may fail or wait."""

    def listen(self, listener: Callable[[StatusChanged], None]) -> Callable[[], None]:
        """From now on, until the answer is called."""
