"""The runtime port on a Docker engine. The Docker SDK blocks, so each call runs in a thread pool.

No call waits for a container to end.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, closing, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from batchq.compute.docker import host
from batchq.compute.docker.cgroups import UseReader
from batchq.compute.docker.client import Client, ClientFactory
from batchq.compute.docker.containers import Containers
from batchq.compute.docker.events import DeathSubscription
from batchq.compute.docker.exec_session import DockerExecSession, open_session, prepare_exec
from batchq.compute.docker.images import Pull, pull_within
from batchq.compute.docker.inspection import member
from batchq.compute.docker.log_reader import LogReader
from batchq.compute.docker.network_placement import NetworkPlacement
from batchq.compute.docker.operation_pools import LIMITS, Limits, OperationPools, UnresponsiveContainers
from batchq.compute.docker.policy import STRICT_POLICY, ServerPolicy
from batchq.compute.secrets import NO_SECRETS, Secrets
from batchq.compute.shared import SingleFlight
from batchq.domain.catalog import Network
from batchq.domain.ids import Tag
from batchq.domain.machines import Machine
from batchq.domain.use import Use
from batchq.errors import ExecRefused, RuntimeUnknown
from batchq.ports.exec_session import ExecCommand
from batchq.ports.logs import LogLine
from batchq.ports.runtime import Created, DeathReport, Inspection, LaunchSpec, RuntimeIdentity

CLOSE_SWEEP_TIMEOUT = 2.0  # seconds: the timeout for removing unused networks at close

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class DockerRuntime:
    """The runtime port. It connects with the first call, and again after every absence of the engine."""

    def __init__(
        self,
        *,
        instance: str,
        policy: ServerPolicy = STRICT_POLICY,
        secrets: Secrets = NO_SECRETS,
        network: Network = Network.SHARED,
        base_url: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """`base_url` is the engine's address, None: DOCKER_HOST, or Docker's default socket.

        `network` is the default of launches. Raises StartImpossible for an invalid address.
        """
        self._instance = instance
        self._factory = ClientFactory(base_url)
        socket = Path(self._factory.socket) if self._factory.socket else None
        private = policy.private if socket is None else (*policy.private, socket)
        self._placement = NetworkPlacement(instance, network)
        self._containers = Containers(
            instance=instance,
            placement=self._placement,
            policy=replace(policy, private=private, socket=socket),
            secrets=secrets,
            lost_before=self._lost_before,
            shares_files=self._factory.shares_files,
        )
        self._unreliable_bridges: set[datetime] = set()
        self._limits = limits
        self._silent_containers = UnresponsiveContainers()
        self._pools = OperationPools(self._factory, limits, self._silent_containers)
        #: By image, platform and account: a shared pull of another account could still wait for a thread.
        self._pulls: SingleFlight[tuple[str, str | None, str]] = SingleFlight("pull")
        self._sweep_tasks: SingleFlight[str] = SingleFlight("sweep")
        #: The accounts of the containers that this process created, for their share of the threads.
        self._accounts: dict[Tag, str] = {}
        self._use_reader = UseReader(self._first_process)

    async def create(self, launch: LaunchSpec) -> Created:
        if launch.account:
            self._accounts[launch.tag] = launch.account
        return await self._run_for_container(
            launch.tag, "create", lambda client: self._containers.create(client, launch)
        )

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        async def once() -> None:
            threads = partial(self._pools.run, "pull", account=account)
            await pull_within(self._limits.pull_timeout, Pull(image, platform), threads)

        await self._pulls.run((image, platform, account), once)

    async def start(self, tag: Tag) -> None:
        await self._run_for_container(tag, "start", lambda client: self._containers.start(client, tag))

    async def inspect(self, tag: Tag) -> Inspection | None:
        return await self._run_for_container(tag, "inspect", lambda client: self._containers.inspect(client, tag))

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:  # noqa: ARG002 - Docker sends any signal by itself
        await self._run_for_container(tag, "stop", lambda client: self._containers.signal_stop(client, tag, signal))

    async def kill(self, tag: Tag) -> None:
        await self._run_for_container(tag, "kill", lambda client: self._containers.kill(client, tag))

    async def remove(self, tag: Tag) -> None:
        await self._run_for_container(tag, "remove", lambda client: self._containers.remove(client, tag))
        self._accounts.pop(tag, None)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        reader = self._log_reader(tag, after=0)
        try:
            first = await self._run_for_container(tag, "remove", reader.read_portion_or_remove)
        except BaseException:
            reader.close()
            raise
        if first:
            return self._log_lines(tag, reader, first)
        self._accounts.pop(tag, None)
        return None

    async def survey(self) -> tuple[Inspection, ...]:
        try:
            found = await self._pools.run("survey", self._containers.survey)
        except RuntimeUnknown:
            self._silent_containers.survey_failed()
            raise
        self._silent_containers.survey_succeeded(found)
        existing = tuple(inspection.tag for inspection in found)
        self._sweep_tasks.start_detached("after a survey", lambda: self._sweep(existing))
        return found

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        def connect() -> Client:
            # A stream is opened again after each absence of the engine, which may have been replaced meanwhile.
            self._factory.reset_version()
            return self._factory.get_client(None, receive_timeout=self._limits.events_timeout)

        def try_inspect(tag: Tag, then: Callable[[Inspection | BaseException | None], None]) -> bool:
            return self._pools.offer(tag, "inspect", lambda client: self._containers.inspect(client, tag), then)

        return DeathSubscription(
            connect, self._instance, try_inspect=try_inspect, on_outcome=self._pools.record_outcome
        )

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        return self._log_lines(tag, self._log_reader(tag, after=after))

    async def follow(self, tag: Tag, *, after: int) -> None:
        """None: the engine stores at least 400 MB of a container's output."""

    async def exec(self, tag: Tag, command: ExecCommand) -> DockerExecSession:
        """Raises ExecRefused too for an engine that is not reached by a unix socket."""
        if self._factory.socket is None:
            raise ExecRefused("the container engine is not reached by a unix socket, which exec needs")
        run = partial(self._pools.run, "exec", account=self._accounts.get(tag, ""))
        prepared = await run(lambda client: prepare_exec(client, self._containers.id_of(client, tag), command))
        return await open_session(self._factory.socket, prepared, command, run)

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> Mapping[Tag, Use] | None:
        return await self._use_reader.measure(containers, at)

    async def machines(self) -> tuple[Machine, ...]:
        return await self._pools.run("survey", host.machines)

    async def lost_before(self) -> datetime | None:
        return await self._pools.run("survey", lambda _: self._lost_before())

    async def identity(self) -> RuntimeIdentity:
        return await self._pools.run("survey", host.identity)

    async def close(self) -> None:
        """Cancel pulls, remove unused shared networks within `CLOSE_SWEEP_TIMEOUT`, and end the threads.

        Containers remain.
        """
        await self._pulls.close()
        await self._sweep_tasks.close()
        if self._placement.shared.may_exist:
            with suppress(RuntimeUnknown, TimeoutError):
                async with asyncio.timeout(CLOSE_SWEEP_TIMEOUT):
                    await self._pools.run("sweep", self._placement.shared.remove_unused)
        await self._pools.close()
        self._containers.close()

    async def _run_for_container(self, tag: Tag, call: str, work: Callable[[Client], Result]) -> Result:
        """Run a call about one container, with the share of its account if this process created the container."""
        return await self._pools.run_for_container(tag, call, work, account=self._accounts.get(tag, ""))

    async def _first_process(self, tag: Tag, container_id: str) -> int:
        """The process id of a container's first process on the host; 0 if it does not run."""
        inspected = await self._run_for_container(tag, "inspect", lambda client: client.inspect_container(container_id))
        return member(inspected, "State", "Pid", of=int)

    def _log_reader(self, tag: Tag, *, after: int) -> LogReader:
        """A reader of the log. The timeout is shorter for a silent container, since others wait for its thread."""
        receive_timeout = (
            self._limits.container_timeout if tag in self._silent_containers else self._limits.receive_timeout
        )
        return LogReader(self._containers, tag, after=after, receive_timeout=receive_timeout)

    async def _log_lines(
        self, tag: Tag, reader: LogReader, first: Sequence[LogLine] = ()
    ) -> AsyncGenerator[LogLine, None]:
        """Yield all lines; `first` are those that were read already."""
        with closing(reader):
            for line in first:
                yield line
            while not reader.done:
                for line in await self._run_for_container(tag, "logs", reader.read_portion):
                    yield line

    def _lost_before(self, ended: Inspection | None = None) -> datetime | None:
        """As `lost_before` of host.py; blocks.

        A new connection is used: an engine that shuts down still replies on open ones, and accepts no new one.
        """
        with closing(self._factory.get_client(None, receive_timeout=self._limits.container_timeout)) as client:
            booted_at = host.booted_at(host.PROC_STAT) if self._factory.socket else None
            return host.lost_before(client, booted_at, self._unreliable_bridges, ended=ended)

    async def _sweep(self, existing: tuple[Tag, ...]) -> None:
        """Remove networks, pause containers and volumes of attempts without a container, which a crash left behind.

        What cannot be removed now is removed after a later survey.
        """
        try:
            for attempt in await self._pools.run("sweep", lambda client: self._placement.orphaned(client, existing)):
                log.debug("attempt %s: no container left, removing its network, pause containers and volumes", attempt)
                await self._pools.run("sweep", partial(self._placement.attempts.remove_if_unused, tag=attempt))
        except RuntimeUnknown as error:
            log.debug("shared objects not removed: %s", error)
