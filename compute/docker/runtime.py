"""The runtime port on a Docker engine. The Docker SDK blocks, so each call runs in a thread pool.

No call waits for a container to end.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from batchq.compute.docker import events, gpus, host
from batchq.compute.docker.circuit_breaker import SilentContainers
from batchq.compute.docker.client import Client, ClientFactory
from batchq.compute.docker.containers import Containers
from batchq.compute.docker.images import Pull, within
from batchq.compute.docker.log_reader import Reading
from batchq.compute.docker.network.placement import NetworkPlacement
from batchq.compute.docker.policy import STRICT, Policy
from batchq.compute.docker.secrets import NO_SECRETS, Secrets
from batchq.compute.docker.thread_pools import LIMITS, Limits, OperationPools
from batchq.compute.single_flight import SingleFlight
from batchq.domain.catalog import Network
from batchq.domain.container import Resources
from batchq.domain.ids import Tag
from batchq.errors import EngineUnknown
from batchq.ports.logs import LogLine
from batchq.ports.runtime import Created, DeathReport, EngineIdentity, Inspection, LaunchSpec

LAST_SWEEP = 2.0  # seconds: the timeout for removing unused networks at close

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


class DockerRuntime:
    """The runtime port. It connects with the first call, and again after every absence of the engine."""

    def __init__(
        self,
        *,
        instance: str,
        policy: Policy = STRICT,
        secrets: Secrets = NO_SECRETS,
        network: Network = Network.SHARED,
        base_url: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """`base_url` is the engine's address, None: DOCKER_HOST, or Docker's default socket.

        `network` is the default of launches. Raises StartImpossible for an invalid address.
        """
        self._instance = instance
        self._door = ClientFactory(base_url)
        socket = (Path(self._door.socket),) if self._door.socket else ()
        self._places = NetworkPlacement(instance, network)
        self._containers = Containers(
            instance=instance,
            places=self._places,
            policy=replace(policy, private=policy.private + socket),
            secrets=secrets,
            gpus=gpus.count,
            lost_before=self._lost_before,
            shares_files=self._door.shares_files,
        )
        self._unreliable_bridges: set[datetime] = set()
        self._limits = limits
        self._doubts = SilentContainers()
        self._lanes = OperationPools(self._door, limits, self._doubts)
        #: By image, platform and account: a shared pull of another account could still wait for a thread.
        self._pulls: SingleFlight[tuple[str, str | None, str]] = SingleFlight("pull")
        self._sweeps: SingleFlight[str] = SingleFlight("sweep")
        #: The accounts of the containers that this process created, for their share of the threads.
        self._accounts: dict[Tag, str] = {}

    async def create(self, launch: LaunchSpec) -> Created:
        if launch.account:
            self._accounts[launch.tag] = launch.account
        return await self._about(launch.tag, "create", lambda client: self._containers.create(client, launch))

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        async def once() -> None:
            threads = partial(self._lanes.ask, "pull", account=account)
            await within(self._limits.deadline_of_pull, Pull(image, platform), threads)

        await self._pulls.do((image, platform, account), once)

    async def start(self, tag: Tag) -> None:
        await self._about(tag, "start", lambda client: self._containers.start(client, tag))

    async def inspect(self, tag: Tag) -> Inspection | None:
        return await self._about(tag, "inspect", lambda client: self._containers.inspect(client, tag))

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        await self._about(tag, "stop", lambda client: self._containers.signal_stop(client, tag, signal))

    async def kill(self, tag: Tag) -> None:
        await self._about(tag, "kill", lambda client: self._containers.kill(client, tag))

    async def remove(self, tag: Tag) -> None:
        await self._about(tag, "remove", lambda client: self._containers.remove(client, tag))
        self._accounts.pop(tag, None)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        reading = self._reading(tag, after=0)
        try:
            some = await self._about(tag, "remove", reading.some_or_remove)
        except BaseException:
            reading.close()
            raise
        if some:
            return self._told(tag, reading, some)
        self._accounts.pop(tag, None)
        return None

    async def survey(self) -> tuple[Inspection, ...]:
        try:
            found = await self._lanes.ask("survey", self._containers.survey)
        except EngineUnknown:
            self._doubts.engine_silent()
            raise
        self._doubts.engine_told(found)
        living = tuple(it.tag for it in found)
        self._sweeps.begin("after a survey", lambda: self._sweep(living))
        return found

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        def connect() -> Client:
            # A stream is opened again after each absence of the engine, which may have been replaced meanwhile.
            self._door.forget_version()
            return self._door.client(None, patience=self._limits.patience_with_events)

        def look(tag: Tag, then: Callable[[Inspection | BaseException | None], None]) -> bool:
            return self._lanes.offer(tag, "inspect", lambda client: self._containers.inspect(client, tag), then)

        return events.deaths(connect, self._instance, look=look, learn=self._lanes.learn)

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        return self._told(tag, self._reading(tag, after=after))

    async def capacity(self) -> Resources:
        return await self._lanes.ask("survey", host.capacity)

    async def lost_before(self) -> datetime | None:
        return await self._lanes.ask("survey", lambda _: self._lost_before())

    async def identity(self) -> EngineIdentity:
        return await self._lanes.ask("survey", host.identity)

    async def close(self) -> None:
        """Cancel pulls, remove unused shared networks within `LAST_SWEEP`, and end the threads. Containers remain."""
        await self._pulls.close()
        await self._sweeps.close()
        if self._places.may_leave:
            with suppress(EngineUnknown, TimeoutError):
                async with asyncio.timeout(LAST_SWEEP):
                    await self._lanes.ask("sweep", self._places.leave)
        await self._lanes.close()
        self._containers.close()

    async def _about(self, tag: Tag, call: str, work: Callable[[Client], Answer]) -> Answer:
        """Run a call about one container in a thread of its account; of no account, if another process created it."""
        return await self._lanes.about(tag, call, work, account=self._accounts.get(tag, ""))

    def _reading(self, tag: Tag, *, after: int) -> Reading:
        """A reader of the log. For a silent container the timeout is shorter: other silent ones wait for its thread."""
        patience = self._limits.patience_with_one if tag in self._doubts else self._limits.patience
        return Reading(self._containers, tag, after=after, patience=patience)

    async def _told(self, tag: Tag, reading: Reading, some: Sequence[LogLine] = ()) -> AsyncGenerator[LogLine, None]:
        """Yield all lines; `some` are those that were read already."""
        with closing(reading):
            for line in some:
                yield line
            while not reading.done:
                for line in await self._about(tag, "logs", reading.some):
                    yield line

    def _lost_before(self) -> datetime | None:
        """As `lost_before` of the port; blocks.

        A new connection is used: an engine that shuts down still replies on open ones, and accepts no new one.
        """
        with closing(self._door.client(None, patience=self._limits.patience_with_one)) as client:
            booted_at = host.booted_at(host.KERNEL) if self._door.socket else None
            return host.lost_before(client, booted_at, self._unreliable_bridges)

    async def _sweep(self, living: tuple[Tag, ...]) -> None:
        """Remove networks, pause containers and volumes of attempts without a container, which a crash left behind.

        What cannot be removed now is removed after a later survey.
        """
        try:
            for attempt in await self._lanes.ask("sweep", lambda client: self._places.deserted(client, living)):
                log.info("attempt %s: nothing of it runs, what its containers shared is taken away", attempt)
                await self._lanes.ask("sweep", partial(self._places.sweep, attempt=attempt))
        except EngineUnknown as unknown:
            log.debug("not swept: %s", unknown)
