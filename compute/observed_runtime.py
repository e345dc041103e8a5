"""A container runtime whose calls are measured."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from time import perf_counter
from typing import TypeVar

from batchq.domain.ids import Tag
from batchq.domain.machines import Machine
from batchq.domain.use import Use
from batchq.errors import BatchqError, RuntimeUnknown
from batchq.ports.exec_session import ExecCommand, ExecSession
from batchq.ports.logs import LogLine
from batchq.ports.observer import Observer
from batchq.ports.runtime import ContainerRuntime, Created, DeathReport, Inspection, LaunchSpec, RuntimeIdentity

T = TypeVar("T")


class ObservedRuntime:
    """Reports the duration and the outcome of each call to an Observer.

    Streams of events and logs are not measured, nor are samples of the use, which are not calls of the engine.
    """

    def __init__(self, runtime: ContainerRuntime, observer: Observer) -> None:
        self._runtime = runtime
        self._observer = observer

    async def create(self, launch: LaunchSpec) -> Created:
        return await self._measure("create", self._runtime.create(launch))

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        await self._measure("pull", self._runtime.pull(image, platform, account=account))

    async def start(self, tag: Tag) -> None:
        await self._measure("start", self._runtime.start(tag))

    async def inspect(self, tag: Tag) -> Inspection | None:
        return await self._measure("inspect", self._runtime.inspect(tag))

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        await self._measure("signal_stop", self._runtime.signal_stop(tag, signal, grace=grace))

    async def kill(self, tag: Tag) -> None:
        await self._measure("kill", self._runtime.kill(tag))

    async def remove(self, tag: Tag) -> None:
        await self._measure("remove", self._runtime.remove(tag))

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        return await self._measure("remove", self._runtime.remove_silent(tag))

    async def survey(self) -> tuple[Inspection, ...]:
        return await self._measure("survey", self._runtime.survey())

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        return self._runtime.deaths()

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        return self._runtime.logs(tag, after=after)

    async def follow(self, tag: Tag, *, after: int) -> AsyncGenerator[Sequence[LogLine], None] | None:
        return await self._runtime.follow(tag, after=after)

    async def exec(self, tag: Tag, command: ExecCommand) -> ExecSession:
        return await self._measure("exec", self._runtime.exec(tag, command))

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> Mapping[Tag, Use] | None:
        return await self._runtime.measure(containers, at=at)

    async def machines(self) -> tuple[Machine, ...]:
        return await self._measure("machines", self._runtime.machines())

    async def lost_before(self) -> datetime | None:
        return await self._measure("lost_before", self._runtime.lost_before())

    async def identity(self) -> RuntimeIdentity:
        return await self._measure("identity", self._runtime.identity())

    async def close(self) -> None:
        await self._runtime.close()

    async def _measure(self, call: str, made: Awaitable[T]) -> T:
        began, outcome = perf_counter(), "failed"
        try:
            result = await made
            outcome = "ok"
        except RuntimeUnknown:
            outcome = "unknown"
            raise
        except BatchqError:
            outcome = "refused"
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        else:
            return result
        finally:
            self._observer.engine_call(call, seconds=perf_counter() - began, outcome=outcome)
