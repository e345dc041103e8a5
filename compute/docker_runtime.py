"""Containers by the Docker SDK. It blocks, so each call has a thread, and none waits for a container to end."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from batchq.domain.container import Resources
from batchq.domain.names import Tag
from batchq.errors import EngineError, EngineUnknown
from batchq.values import ContainerState, Found, Launch, LogLine
from compute import docker_events, gpus
from compute.docker_client import Client, Door
from compute.docker_containers import Containers, capacity
from compute.docker_errors import unknown_unless_told, was_silent
from compute.docker_pull import pull
from compute.docker_reading import Reading
from compute.policy import STRICT, Policy
from compute.secrets import NO_SECRETS, Secrets
from compute.shared import Shared
from compute.threads import Crew

CORES = os.cpu_count() or 1

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Threads for each kind of call, and how many seconds the engine may be silent in one.

    A container that is stuck holds up each call about it: `patience_with_one` frees the thread for others, and after
    that its calls have the `stuck` threads, until one of them is answered.
    """

    control: int = 2 * CORES
    look: int = 2 * CORES
    survey: int = 1
    stop: int = 8
    kill: int = 8
    stuck: int = 4
    clear: int = 2 * CORES
    logs: int = 4
    pull: int = 2
    patience: float = 60.0
    patience_with_one: float = 20.0
    patience_with_registry: float = 300.0
    patience_with_events: float = 300.0


LIMITS = Limits()


class DockerRuntime:
    """Nothing is asked of the engine before the first call; each call asks it anew, however long it was away."""

    def __init__(
        self,
        *,
        instance: str,
        policy: Policy = STRICT,
        secrets: Secrets = NO_SECRETS,
        base_url: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """Without `base_url` the engine is where DOCKER_HOST says, or at the usual socket."""
        self._instance = instance
        self._door = Door(base_url)
        socket = (Path(self._door.socket),) if self._door.socket else ()
        self._containers = Containers(
            instance=instance,
            policy=replace(policy, private=policy.private + socket),
            secrets=secrets,
            gpus=gpus.count,
        )
        self._limits = limits
        self._crews: list[Crew[Client]] = []
        with_one = min(limits.patience, limits.patience_with_one)
        control = self._crew("control", limits.control, limits.patience)
        self._clear = self._crew("clear", limits.clear, limits.patience)
        self._lanes = {
            "create": control,
            "start": control,
            "inspect": self._crew("look", limits.look, with_one),
            "stop": self._crew("stop", limits.stop, with_one),
            "kill": self._crew("kill", limits.kill, with_one),
            "remove": self._clear,
            "logs": self._crew("logs", limits.logs, limits.patience),
        }
        self._stuck = self._crew("stuck", limits.stuck, limits.patience)
        self._silent: set[Tag] = set()
        self._survey = self._crew("survey", limits.survey, limits.patience)
        self._pull = self._crew("pull", limits.pull, limits.patience_with_registry)
        self._pulls: Shared[tuple[str, str | None]] = Shared("pull")
        self._sweeps: Shared[str] = Shared("sweep")

    async def create(self, launch: Launch) -> ContainerState:
        return await self._about(launch.tag, "create", lambda client: self._containers.create(client, launch))

    async def pull(self, image: str, platform: str | None) -> None:
        async def once() -> None:
            await _ask(self._pull, "pull", lambda client: pull(client, image, platform))

        await self._pulls.do((image, platform), once)

    async def start(self, tag: Tag) -> None:
        await self._about(tag, "start", lambda client: self._containers.start(client, tag))

    async def inspect(self, tag: Tag) -> Found | None:
        return await self._about(tag, "inspect", lambda client: self._containers.inspect(client, tag))

    async def signal_stop(self, tag: Tag) -> None:
        await self._about(tag, "stop", lambda client: self._containers.signal_stop(client, tag))

    async def kill(self, tag: Tag) -> None:
        await self._about(tag, "kill", lambda client: self._containers.kill(client, tag))

    async def remove(self, tag: Tag) -> None:
        await self._about(tag, "remove", lambda client: self._containers.remove(client, tag))

    async def survey(self) -> tuple[Found, ...]:
        found = await _ask(self._survey, "survey", self._containers.survey)
        living = tuple(it.tag for it in found)
        self._sweeps.begin("after a survey", lambda: self._sweep(living))
        return found

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag]]:
        def connect() -> Client:
            # A stream is opened again after each absence of the engine: it may have come back as another.
            self._door.forget_version()
            return self._door.client(None, patience=self._limits.patience_with_events)

        return docker_events.deaths(connect, self._instance)

    async def logs(self, tag: Tag, *, after: int) -> AsyncIterator[LogLine]:
        reading = Reading(self._containers, tag, after=after)
        with closing(reading):
            while not reading.done:
                for line in await self._about(tag, "logs", reading.some):
                    yield line

    async def capacity(self) -> Resources:
        return await _ask(self._survey, "info", capacity)

    async def close(self) -> None:
        """Containers are left as they are."""
        await self._pulls.close()
        await self._sweeps.close()
        await asyncio.gather(*(crew.close() for crew in self._crews))

    async def _about(self, tag: Tag, call: str, work: Callable[[Client], Answer]) -> Answer:
        """A call about one container, which may be stuck while all others are well."""
        try:
            answer = await _ask(self._stuck if tag in self._silent else self._lanes[call], call, work)
        except EngineUnknown as unknown:
            if was_silent(unknown):
                self._silent.add(tag)
            raise
        except EngineError:
            self._silent.discard(tag)
            raise
        self._silent.discard(tag)
        return answer

    async def _sweep(self, living: tuple[Tag, ...]) -> None:
        """What a crash left of attempts that have no container. What cannot be taken away now is tried again."""
        try:
            for attempt in await _ask(self._clear, "sweep", lambda client: self._containers.deserted(client, living)):
                log.info("attempt %s: nothing of it runs, what its containers shared is taken away", attempt)
                await _ask(self._clear, "sweep", partial(self._containers.sweep, attempt=attempt))
        except EngineUnknown as unknown:
            log.debug("not swept: %s", unknown)

    def _crew(self, name: str, size: int, patience: float) -> Crew[Client]:
        def equip(before: Client | None) -> Client:
            with unknown_unless_told("connect"):
                return self._door.client(before, patience=patience)

        crew = Crew(f"docker-{name}", size=size, equip=equip)
        self._crews.append(crew)
        return crew


async def _ask(crew: Crew[Client], call: str, work: Callable[[Client], Answer]) -> Answer:
    def judged(client: Client) -> Answer:
        with unknown_unless_told(call):
            return work(client)

    return await crew.run(judged)
