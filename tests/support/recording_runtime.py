"""A runtime that records the calls which change containers, in order, and fails or delays those that a test names."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from batchq.domain.ids import Tag
from batchq.errors import EngineUnknown, EngineUnreachable
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerRuntime, DeathReport
from tests.support.runtime_proxy import RuntimeProxy, T

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
        #: By call: errors, each of which is raised once, instead of the call.
        self.refusals: dict[str, list[Exception]] = {}
        #: By call: an error that is raised each time, instead of the call.
        self.errors: dict[str, Exception] = {}
        #: By call: how many further calls are carried out, and raise EngineUnknown.
        self.lost_replies: dict[str, int] = {}
        #: No call reaches the engine; each raises EngineUnreachable.
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

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        self.log_reads += 1
        return super().logs(tag, after=after)

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
            raise EngineUnknown(f"the reply to {call} was lost")
        return reply

    async def _until_released(self, call: str) -> None:
        if call in self._held:
            await self._held[call].wait()

    async def _reach(self, forward: Callable[[], Awaitable[T]]) -> T:
        if self.unreachable:
            raise EngineUnreachable("the engine is away")
        return await forward()

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        async with self.runtime.deaths() as reports:
            yield (self._without_inspection(it) async for it in reports if not self.drops_death_reports)

    def _without_inspection(self, report: Tag | DeathReport) -> Tag | DeathReport:
        """A death is reported without what was found while no inspection could be answered."""
        unanswered = self.unreachable or "inspect" in self._held
        return report.tag if unanswered and isinstance(report, DeathReport) else report
