"""A container runtime between the engine and another runtime, for tests that record or disturb its calls."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TypeVar

from batchq.domain.container import Resources
from batchq.domain.ids import Tag
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

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        await self.call("signal_stop", tag, lambda: self.runtime.signal_stop(tag, signal))

    async def kill(self, tag: Tag) -> None:
        await self.call("kill", tag, lambda: self.runtime.kill(tag))

    async def remove(self, tag: Tag) -> None:
        await self.call("remove", tag, lambda: self.runtime.remove(tag))

    async def survey(self) -> tuple[Inspection, ...]:
        return await self.call("survey", None, self.runtime.survey)

    async def capacity(self) -> Resources:
        return await self.call("capacity", None, self.runtime.capacity)

    async def lost_before(self) -> datetime | None:
        return await self.call("lost_before", None, self.runtime.lost_before)

    async def identity(self) -> EngineIdentity:
        return await self.call("identity", None, self.runtime.identity)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        """Each container is removed by a call of its own, which can be delayed and refused."""
        return self.logs(tag, after=0)

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        return self.runtime.logs(tag, after=after)

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        return self.runtime.deaths()

    async def close(self) -> None:
        await self.runtime.close()
