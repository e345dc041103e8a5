"""The runtime port on a Kubernetes cluster: one pod for each node of an attempt, in a namespace of batchq's own."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from batchq.compute.kubernetes.connection import OLDEST_VERSION, ClusterAccess, check_version
from batchq.compute.kubernetes.departed_nodes import DepartedNodes
from batchq.compute.kubernetes.drain_budgets import DrainBudgets
from batchq.compute.kubernetes.log_reader import (
    LONG_REPLY,
    LogParser,
    UnfinishedLines,
    follow_log,
    read_log,
    read_unfinished,
)
from batchq.compute.kubernetes.nodes import ClusterNodes
from batchq.compute.kubernetes.pod_names import name_in_pod, run_of
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.pod_start import PodStarts
from batchq.compute.kubernetes.pod_state import REMOVE, PodState
from batchq.compute.kubernetes.pod_stop import PodStops
from batchq.compute.kubernetes.pods import Pod, Pods, is_shared, uid_of
from batchq.compute.kubernetes.rest import RestClient
from batchq.compute.kubernetes.watching import PodReader, PodWatch
from batchq.compute.secrets import NO_SECRETS, Secrets
from batchq.domain.ids import Tag
from batchq.domain.machines import Machine
from batchq.errors import ContainerGone, ContainerRuntimeError, ExecRefused, RuntimeUnknown, StartImpossible
from batchq.ports.clock import Clock
from batchq.ports.exec_session import ExecCommand
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Created, DeathReport, Inspection, LaunchSpec, RuntimeIdentity

log = logging.getLogger(__name__)


class KubernetesRuntime:
    """The runtime port. It connects with the first call, and again after every absence of the API server."""

    def __init__(
        self,
        *,
        instance: str,
        cluster: ClusterAccess,
        clock: Clock,
        policy: PodPolicy,
        secrets: Secrets = NO_SECRETS,
        allow_old: bool = False,
    ) -> None:
        """`allow_old`: whether a server older than 1.30 is accepted, for tests only."""
        self._instance, self._allow_old = instance, allow_old
        self._version: tuple[int, int] | None = None
        self._rest = RestClient(cluster, clock)
        self._pods = Pods(self._rest, instance)
        self._budgets = DrainBudgets(self._rest, instance, policy.refuses_drains)
        self._nodes = ClusterNodes(self._rest, instance, clock)
        self._departed = DepartedNodes(self._rest, self._nodes, clock)
        self._reader = PodReader(instance, clock, self._kill_second_start, is_old=lambda: self._is_old)
        self._watch = PodWatch(
            self._rest, self._pods, self._reader, clock, on_bound=self._nodes.hold, on_end=self._nodes.release
        )
        self._stops = PodStops(
            self._rest, self._pods, self._reader, self._departed, has_deadline_kill=self._has_deadline_kill
        )
        self._starts = PodStarts(
            instance=instance,
            namespace=cluster.namespace,
            policy=policy,
            secrets=secrets,
            pods=self._pods,
            reader=self._reader,
            watch=self._watch,
            nodes=self._nodes,
            departed=self._departed,
            ensure_budget=lambda environment: self._budgets.ensure(environment, is_old=self._is_old),
            clock=clock,
        )
        self._unfinished = UnfinishedLines(clock)
        self._tasks: set[asyncio.Task[None]] = set()

    async def check_server(self) -> None:
        """Raise StartImpossible if the server's version is not supported, and RuntimeUnknown if it does not answer."""
        if self._version is None:
            reply = await self._rest.get("/version")
            self._version = check_version(reply.body, allow_old=self._allow_old)
            log.info("Kubernetes %d.%d", *self._version)

    async def create(self, launch: LaunchSpec) -> Created:
        await self._verify_version()
        return await self._starts.create(launch)

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        """Do nothing: the kubelet pulls the image at the start."""

    async def start(self, tag: Tag) -> None:
        await self._starts.start(tag)

    async def inspect(self, tag: Tag) -> Inspection | None:
        pod = await self._pods.get(tag)
        if pod is None or tag not in self._reader.tags_of(pod):
            return None
        return self._reader.read(pod, tag, has_node_left=await self._departed.include(pod)).inspection

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        if signal == "SIGKILL":
            # A process 1 ignores a SIGKILL that is sent in its own container.
            await self._stops.kill(tag)
        else:
            await self._stops.signal_stop(tag, signal, grace)

    async def kill(self, tag: Tag) -> None:
        await self._stops.kill(tag)

    async def remove(self, tag: Tag) -> None:
        ended = self._watch.ended(tag)
        pod = ended or await self._pods.get(tag)
        if pod is not None and tag in self._reader.all_tags_of(pod):
            if is_shared(pod) and tag in self._reader.tags_of(pod):
                pod = await self._pods.remove_container(pod, tag)
            if pod is not None and (not is_shared(pod) or not self._reader.tags_of(pod)):
                await self._remove_pod(pod, has_ended=ended is not None)
        self._starts.forget(tag)
        self._unfinished.forget(tag)
        await self._stops.forget(tag)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        await self._starts.requests.wait_for_end()  # a node that has become free waits for them
        lines = self.logs(tag, after=0)
        try:
            first = await anext(lines)
        except StopAsyncIteration:
            await self.remove(tag)
            return None

        async def whole() -> AsyncGenerator[LogLine, None]:
            yield first
            async for line in lines:
                yield line

        return whole()

    async def survey(self) -> tuple[Inspection, ...]:
        await self._verify_version()
        await self._budgets.begin_survey(is_old=self._is_old)
        found: list[Inspection] = []
        known, listed = self._reader.known_uids, set[str]()
        async for pods in self._pods.pages():
            for pod in pods:
                listed.add(uid_of(pod))
                if self._reader.all_tags_of(pod) and not self._reader.tags_of(pod):
                    await self._remove_again(pod)
                self._budgets.keep_for(pod)
                has_left = await self._departed.include(pod)
                for tag in self._reader.tags_of(pod):
                    state = self._reader.read(pod, tag, has_node_left=has_left)
                    found.append(replace(state.inspection, machine=pod["spec"].get("nodeName")))
                    self._annotate_run(pod, tag, state)
        # The watch shows no end of a pod that batchq has removed.
        self._reader.forget(known - listed - self._watch.uids)
        await self._budgets.end_survey(is_old=self._is_old)
        return tuple(found)

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        return self._watch.subscribe()

    async def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        followed, has_left = self._stops.followed.get(tag), await self._departed.include(self._watch.latest(tag))
        if has_left and followed is None:
            return  # the log was on the node
        if has_left and followed is not None:
            await followed.close()
        path, name, parser = f"{self._pods.path}/{self._pods.name_of(tag)}", name_in_pod(tag), LogParser(after=after)
        async for line in followed.lines(after=after) if followed else read_log(self._rest, path, name, parser):
            yield line
        while parser.received >= LONG_REPLY and parser.position > parser.after and not await self._runs(tag):
            parser = LogParser(after=parser.position)
            async for line in read_log(self._rest, path, name, parser):
                yield line
        part = parser.unfinished
        if part is not None and self._unfinished.is_old(tag, part.at):
            yield part
        elif part is not None and not await self._runs(tag):
            async for line in read_unfinished(self._rest, path, name, part):
                yield line

    async def _runs(self, tag: Tag) -> bool:
        found = await self.inspect(tag)
        return found is not None and found.state is ContainerState.RUNNING

    async def follow(self, tag: Tag, *, after: int) -> AsyncGenerator[list[LogLine], None]:
        path = f"{self._pods.path}/{self._pods.name_of(tag)}"
        return follow_log(self._rest, path, name_in_pod(tag), after=after, follows_rotations=not self._is_old)

    async def exec(self, tag: Tag, command: ExecCommand) -> NoReturn:  # noqa: ARG002 - refused whatever it is
        """Raises ExecRefused: `kubectl exec` reaches the pod."""
        pod = f"{self._pods.name_of(tag)} -c {name_in_pod(tag)}"
        namespace = self._rest.namespaced.rpartition("/")[2]
        raise ExecRefused(f"batchq does not run commands in pods: use kubectl exec -it -n {namespace} {pod} -- COMMAND")

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> None:
        """None: the cgroups of the nodes cannot be read from here."""

    async def machines(self) -> tuple[Machine, ...]:
        return await self._nodes.machines()

    async def lost_before(self) -> datetime | None:
        """None: each pod shows by itself whether it was lost with its node."""
        return None

    async def identity(self) -> RuntimeIdentity:
        """The identity of the jobs' namespace, and the clock of the API server."""
        reply = await self._rest.get(self._rest.namespaced)
        if not reply.ok:
            raise RuntimeUnknown(f"the namespace of the jobs cannot be read: {reply.message}")
        return RuntimeIdentity(id=str(reply.body["metadata"]["uid"]), time=reply.time)

    async def close(self) -> None:
        """End the watch, the followers and the connections. The pods remain."""
        for task in tuple(self._tasks):
            task.cancel()
        await self._watch.close()
        await self._nodes.close()
        await self._stops.close()
        await self._rest.close()

    async def _verify_version(self) -> None:
        """Raise RuntimeUnknown while the server is too old: it may have been replaced by an older one."""
        try:
            await self.check_server()
        except StartImpossible as error:
            raise RuntimeUnknown(str(error)) from error

    @property
    def _is_old(self) -> bool:
        return self._version is not None and self._version < OLDEST_VERSION

    def _has_deadline_kill(self) -> bool:
        """Whether a deadline ends a container that ignores SIGTERM. Kubernetes 1.20 leaves it running."""
        return not self._is_old

    async def _remove_pod(self, pod: Pod, *, has_ended: bool = False) -> None:
        await self._pods.remove(pod, REMOVE, has_ended=has_ended)
        self._nodes.release(uid_of(pod))

    async def _remove_again(self, pod: Pod) -> None:
        """Remove a pod without containers, whose removal failed before. A failure must not hide other pods."""
        try:
            await self._remove_pod(pod)
        except RuntimeUnknown as unknown:
            log.warning("pod %s: not removed yet: %s", pod["metadata"]["name"], unknown)

    def _annotate_run(self, pod: Pod, tag: Tag, state: PodState) -> None:
        """Write the run of a container into its pod once. A container that ends before a survey needs no write."""
        started = state.inspection.started_at
        is_known = run_of(pod, name_in_pod(tag)) is not None
        if is_known or state.state is not ContainerState.RUNNING or state.container_id is None or started is None:
            return
        self._begin("annotate", pod, partial(self._pods.annotate_run, pod, tag, state.container_id, started))

    def _kill_second_start(self, pod: Pod, tag: Tag) -> None:
        """Kill a container that its node started a second time."""
        self._begin("kill the second container of", pod, partial(self._pods.kill, pod, tag))

    def _begin(self, what: str, pod: Pod, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call whose failure is only logged."""

        async def make() -> None:
            try:
                await call()
            except (ContainerRuntimeError, ContainerGone) as error:
                log.warning("pod %s: the call to %s it failed: %s", pod["metadata"]["name"], what, error)

        task = asyncio.create_task(make(), name=f"kubernetes: {what} {uid_of(pod)}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
