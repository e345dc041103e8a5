"""Proxies between an in-process server and its store or runtime: they observe, delay, refuse and lose calls."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from batchq.domain.enums import Status
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job
from batchq.domain.machines import Machine
from batchq.domain.use import Use
from batchq.errors import RuntimeUnknown, RuntimeUnreachable, StoreFailed
from batchq.ports.exec_session import ExecCommand, ExecSession
from batchq.ports.jobs import Changes, JobStore
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerRuntime, Created, DeathReport, Inspection, LaunchSpec, RuntimeIdentity


class StoreProxy:
    """Forwards every call to `store`. `before_commit` and `after_commit` observe each commit."""

    def __init__(
        self,
        store: JobStore,
        *,
        before_commit: Callable[[Changes], Awaitable[None]] | None = None,
        after_commit: Callable[[Changes], None] | None = None,
    ) -> None:
        self.store = store
        self.before_commit = before_commit
        self.after_commit = after_commit
        #: Each commit raises StoreFailed.
        self.failing = False
        #: Commits of new and changed jobs are carried out, and their callers wait for ever: a crash then is one between
        #: commit and reply. Commits of other changes, for example of the engine's id after a start, return.
        self.withholds_replies = False
        #: How many commits were carried out without a reply.
        self.unanswered_commits = 0
        #: How many commits were carried out.
        self.commits = 0
        self._waiting: list[asyncio.Future[None]] = []

    def next_commit(self) -> asyncio.Future[None]:
        """Done after the next commit from now on was carried out."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    async def commit(self, changes: Changes) -> int | None:
        if self.failing:
            raise StoreFailed("no space left on device")
        if self.before_commit is not None:
            await self.before_commit(changes)
        first_number = await self.store.commit(changes)
        self._count_commit()
        if self.after_commit is not None:
            self.after_commit(changes)
        if self.withholds_replies and (changes.inserted or changes.updated or changes.bulk_stops):
            self.unanswered_commits += 1
            await asyncio.Event().wait()
        return first_number

    def _count_commit(self) -> None:
        self.commits += 1
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class StatusChanges:
    """An observer of commits that calls `listener` for each status change, in the order of the history.

    `listener` gets the status before (None for a new job), the status after, and the job as the commit left it.
    """

    def __init__(self, listener: Callable[[Status | None, Status, Job], None]) -> None:
        self._listener = listener
        self._statuses: dict[JobId, Status] = {}

    def __call__(self, changes: Changes) -> None:
        jobs = {job.id: job for job in (*changes.inserted, *changes.updated)}
        for entry in changes.history:
            if not entry.is_status:
                continue
            before = self._statuses.get(entry.job_id)
            self._statuses[entry.job_id] = entry.status
            self._listener(before, entry.status, jobs[entry.job_id])


T = TypeVar("T")


class RuntimeProxy:
    """Forwards each call to `runtime`. A subclass overrides `call`, which every call passes that may fail."""

    def __init__(self, runtime: ContainerRuntime) -> None:
        self.runtime = runtime

    async def call(self, _name: str, _tag: Tag | None, forward: Callable[[], Awaitable[T]]) -> T:
        """Make the call that the port names so; `forward` reaches the other runtime."""
        return await forward()

    async def create(self, launch: LaunchSpec) -> Created:
        return await self.call("create", launch.tag, lambda: self.runtime.create(launch))

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        await self.call("pull", None, lambda: self.runtime.pull(image, platform, account=account))

    async def start(self, tag: Tag) -> None:
        await self.call("start", tag, lambda: self.runtime.start(tag))

    async def inspect(self, tag: Tag) -> Inspection | None:
        return await self.call("inspect", tag, lambda: self.runtime.inspect(tag))

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        await self.call("signal_stop", tag, lambda: self.runtime.signal_stop(tag, signal, grace=grace))

    async def kill(self, tag: Tag) -> None:
        await self.call("kill", tag, lambda: self.runtime.kill(tag))

    async def remove(self, tag: Tag) -> None:
        await self.call("remove", tag, lambda: self.runtime.remove(tag))

    async def survey(self) -> tuple[Inspection, ...]:
        return await self.call("survey", None, self.runtime.survey)

    async def exec(self, tag: Tag, command: ExecCommand) -> ExecSession:
        return await self.call("exec", tag, lambda: self.runtime.exec(tag, command))

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> Mapping[Tag, Use] | None:
        """Measuring is no call of the engine, so `call` does not pass it."""
        return await self.runtime.measure(containers, at=at)

    async def machines(self) -> tuple[Machine, ...]:
        return await self.call("machines", None, self.runtime.machines)

    async def lost_before(self) -> datetime | None:
        return await self.call("lost_before", None, self.runtime.lost_before)

    async def identity(self) -> RuntimeIdentity:
        return await self.call("identity", None, self.runtime.identity)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        """Each container is removed by a call of its own, which can be delayed and refused."""
        return self.logs(tag, after=0)

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        return self.runtime.logs(tag, after=after)

    async def follow(self, tag: Tag, *, after: int) -> AsyncGenerator[Sequence[LogLine], None] | None:
        return await self.runtime.follow(tag, after=after)

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        return self.runtime.deaths()

    async def close(self) -> None:
        await self.runtime.close()


RECORDED = {"create": "create", "start": "start", "signal_stop": "stop", "kill": "kill", "remove": "remove"}


class RecordingRuntime(RuntimeProxy):
    """The calls that it records have the names of `RECORDED`."""

    def __init__(self, runtime: ContainerRuntime) -> None:
        super().__init__(runtime)
        #: The recorded calls in their order, also those that failed.
        self.all_calls: list[tuple[Tag, str]] = []
        #: By call: how many were carried out and answered, also those whose reply was lost.
        self.replies = Counter[str]()
        #: How many calls there were of `inspect` and of `pull`.
        self.inspections = 0
        self.pulls = 0
        #: How many calls there were of `logs`.
        self.log_reads = 0
        #: The containers of each call of `measure`.
        self.measured: list[frozenset[Tag]] = []
        #: By call: errors, each of which is raised once, instead of the call.
        self.refusals: dict[str, list[Exception]] = {}
        #: By call: an error that is raised each time, instead of the call.
        self.errors: dict[str, Exception] = {}
        #: By call: how many further calls are carried out, and raise RuntimeUnknown.
        self.lost_replies: dict[str, int] = {}
        #: No call reaches the engine; each raises RuntimeUnreachable.
        self.unreachable = False
        #: Deaths are not reported.
        self.drops_death_reports = False
        self._held: dict[str, asyncio.Event] = {}

    def calls(self, tag: Tag) -> list[str]:
        """The recorded calls for one container."""
        return [call for of, call in self.all_calls if of == tag]

    def hold(self, call: str) -> None:
        """Calls wait until `release`: before they reach the engine, but an inspection when it has been made."""
        self._held[call] = asyncio.Event()

    def release(self, call: str) -> None:
        self._held.pop(call).set()

    def repair(self) -> None:
        """Remove all faults, and release all calls."""
        self.refusals, self.errors, self.lost_replies = {}, {}, {}
        self.unreachable = self.drops_death_reports = False
        for call in [*self._held]:
            self.release(call)

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        self.log_reads += 1
        return super().logs(tag, after=after)

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> Mapping[Tag, Use] | None:
        self.measured.append(frozenset(containers))
        await self._until_released("measure")
        return await super().measure(containers, at=at)

    async def call(self, name: str, tag: Tag | None, forward: Callable[[], Awaitable[T]]) -> T:
        if name in RECORDED and tag is not None:
            return await self._recorded(RECORDED[name], tag, forward)
        self.inspections += name == "inspect"
        self.pulls += name == "pull"
        if name == "pull":
            await self._until_released(name)
        reply = await self._reach(forward)
        if name == "inspect":
            await self._until_released(name)
        return reply

    async def _recorded(self, call: str, tag: Tag, forward: Callable[[], Awaitable[T]]) -> T:
        self.all_calls.append((tag, call))
        await self._until_released(call)
        if call in self.errors:
            raise self.errors[call]
        if self.refusals.get(call):
            raise self.refusals[call].pop(0)
        reply = await self._reach(forward)
        self.replies[call] += 1
        if self.lost_replies.get(call, 0) > 0:
            self.lost_replies[call] -= 1
            raise RuntimeUnknown(f"the reply to {call} was lost")
        return reply

    async def _until_released(self, call: str) -> None:
        if call in self._held:
            await self._held[call].wait()

    async def _reach(self, forward: Callable[[], Awaitable[T]]) -> T:
        if self.unreachable:
            raise RuntimeUnreachable("the engine is away")
        return await forward()

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        async with self.runtime.deaths() as reports:
            yield (self._without_inspection(report) async for report in reports if not self.drops_death_reports)

    def _without_inspection(self, report: Tag | DeathReport) -> Tag | DeathReport:
        """A death is reported without what was found while no inspection could be answered."""
        unanswered = self.unreachable or "inspect" in self._held
        return report.tag if unanswered and isinstance(report, DeathReport) else report
