"""A runtime that remembers what it was asked, in order, and otherwise is the one it wraps."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TypeVar

from batchq.domain.container import Resources
from batchq.domain.ids import Tag
from batchq.errors import EngineUnknown, EngineUnreachable
from batchq.ports.logs import LogLine
from batchq.ports.runtime import (
    ContainerRuntime,
    Created,
    DeathReport,
    EngineIdentity,
    Inspection,
    LaunchSpec,
)

T = TypeVar("T")


class Recorder:
    """Only what changes a container is written down. `refusals` are raised, one a call, instead of asking.

    Calls in `broken` raise their error each time.

    Calls that are held have been made, and reach the engine when they are let go; of a held look the answer comes late.
    Of `loses_answers` calls the answer is lost, though they were carried out. While `away`, nothing reaches the engine.
    """

    def __init__(self, runtime: ContainerRuntime) -> None:
        self._runtime = runtime
        self.all_asked: list[tuple[Tag, str]] = []
        self._held: dict[str, asyncio.Event] = {}
        self.refusals: dict[str, list[Exception]] = {}
        self.broken: dict[str, Exception] = {}
        self.loses_answers: dict[str, int] = {}
        self.looks = 0
        self.pulls = 0
        self.away = False
        self.deaf_to_deaths = False

    def asked(self, tag: Tag) -> list[str]:
        return [what for of, what in self.all_asked if of == tag]

    async def create(self, launch: LaunchSpec) -> Created:
        return await self._ask(launch.tag, "create", self._runtime.create(launch))

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        self.pulls += 1
        if "pull" in self._held:
            await self._held["pull"].wait()
        await self._reach(self._runtime.pull(image, platform, account=account))

    async def start(self, tag: Tag) -> None:
        await self._ask(tag, "start", self._runtime.start(tag))

    async def inspect(self, tag: Tag) -> Inspection | None:
        self.looks += 1
        found = await self._reach(self._runtime.inspect(tag))
        if "inspect" in self._held:
            await self._held["inspect"].wait()
        return found

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        await self._ask(tag, "stop", self._runtime.signal_stop(tag, signal))

    async def kill(self, tag: Tag) -> None:
        await self._ask(tag, "kill", self._runtime.kill(tag))

    async def remove(self, tag: Tag) -> None:
        await self._ask(tag, "remove", self._runtime.remove(tag))

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None]:
        """Each is removed by a call of its own, which can be held and refused."""
        return self.logs(tag, after=0)

    async def survey(self) -> tuple[Inspection, ...]:
        return await self._reach(self._runtime.survey())

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        async with self._runtime.deaths() as news:
            yield (self._as_answered(it) async for it in news if not self.deaf_to_deaths)

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        return self._runtime.logs(tag, after=after)

    async def capacity(self) -> Resources:
        return await self._reach(self._runtime.capacity())

    async def lost_before(self) -> datetime | None:
        return await self._reach(self._runtime.lost_before())

    async def identity(self) -> EngineIdentity:
        return await self._reach(self._runtime.identity())

    async def close(self) -> None:
        await self._runtime.close()

    def hold(self, what: str) -> None:
        self._held[what] = asyncio.Event()

    def let_go(self, what: str) -> None:
        self._held.pop(what).set()

    def _as_answered(self, news: Tag | DeathReport) -> Tag | DeathReport:
        """What no look could tell now is told of nobody."""
        unanswered = self.away or "inspect" in self._held
        return news.tag if unanswered and isinstance(news, DeathReport) else news

    async def _ask(self, tag: Tag, what: str, call: Coroutine[None, None, T]) -> T:
        self.all_asked.append((tag, what))
        try:
            if what in self._held:
                await self._held[what].wait()
            if what in self.broken:
                raise self.broken[what]
            if self.refusals.get(what):
                raise self.refusals[what].pop(0)
            answer = await self._reach(call)
        finally:
            call.close()
        if self.loses_answers.get(what, 0) > 0:
            self.loses_answers[what] -= 1
            raise EngineUnknown(f"the answer to {what} was lost")
        return answer

    async def _reach(self, call: Coroutine[None, None, T]) -> T:
        try:
            if self.away:
                raise EngineUnreachable("the engine is away")
            return await call
        finally:
            call.close()
