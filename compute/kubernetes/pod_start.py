"""Creates and starts pods, each program at most once.

`create` stores a pod that no scheduler takes, and its uid is saved before the start. `start` binds the pod to a node by
one request with that uid, which the API server carries out at most once. A pod that was ever bound and is absent is
lost, and is never created again. Only a pod that shows that its container never ran is replaced, under a new uid.
"""

import asyncio
import logging
from datetime import timedelta
from http import HTTPStatus

from batchq.compute.kubernetes.nodes import ClusterNodes
from batchq.compute.kubernetes.pod_spec import MAX_REASON, PodPolicy, build_pod, build_secret, needs_secret
from batchq.compute.kubernetes.pod_state import (
    REMOVE,
    WITHDRAW,
    PodState,
    accepted_at,
    created_of,
    mount_refusal,
    withdrawn_for,
)
from batchq.compute.kubernetes.pods import Pod, Pods, is_being_deleted, is_bound, uid_of
from batchq.compute.kubernetes.rest import TOO_LARGE, ApiReply
from batchq.compute.kubernetes.watching import PodReader, PodWatch
from batchq.compute.secrets import Secrets
from batchq.domain.ids import MachineName, Tag
from batchq.errors import (
    ContainerGone,
    ContainerRuntimeError,
    ContainerUnusable,
    NameTaken,
    RuntimeUnknown,
    StartRefused,
    StartUnderWay,
)
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerState, Created, LaunchSpec

START_WAIT = 5.0  # seconds that a start waits for its container to run
WITHDRAWAL_WAIT = 15.0  # seconds that a withdrawal waits for the end of its pod
WATCH_PAUSE = 0.2  # seconds before the watch is started again, if it ended during a start
MOUNT_WAIT = timedelta(seconds=60)  # after which the events of a pod that does not start are read
REFUSED_STATUSES = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)

log = logging.getLogger(__name__)


class PodStarts:
    """The pods of one instance until their containers run."""

    def __init__(
        self,
        *,
        instance: str,
        policy: PodPolicy,
        secrets: Secrets,
        pods: Pods,
        reader: PodReader,
        watch: PodWatch,
        nodes: ClusterNodes,
        clock: Clock,
    ) -> None:
        self._instance = instance
        self._policy = policy
        self._secrets = secrets
        self._pods = pods
        self._reader = reader
        self._watch = watch
        self._nodes = nodes
        self._clock = clock
        #: The pods that `create` returned, with the machines of their jobs.
        self._created: dict[Tag, tuple[Pod, MachineName | None]] = {}

    async def create(self, launch: LaunchSpec) -> Created:
        body = build_pod(launch, instance=self._instance, policy=self._policy)
        if launch.container_id is None:
            pod = await self._post(launch, body)
        else:
            pod = await self._existing(launch, launch.container_id)
        state = self._reader.read(pod, launch.tag)
        if not is_bound(pod) and state.state is ContainerState.CREATED and needs_secret(launch.spec):
            values = self._secrets.resolve(launch.spec.secrets)
            secret = build_secret(launch, instance=self._instance, uid=uid_of(pod), secrets=values)
            if secret is not None:
                await self._pods.ensure_secret(secret)
        self._created[launch.tag] = pod, launch.machine
        return created_of(uid_of(pod), state)

    async def start(self, tag: Tag) -> None:
        await self._watch.ensure_running()
        pod, machine = self._created.get(tag, (None, None))
        pod = pod or await self._pods.get(tag)
        if pod is None:
            raise ContainerGone(f"no pod of {tag} exists")
        with self._watch.changes(tag) as changed:
            if not is_bound(pod):
                await self._bind(tag, pod, machine)
            await self._wait_for_run(tag, uid_of(pod), changed)
        self.forget(tag)

    def forget(self, tag: Tag) -> None:
        """The container of the tag has run, or its pod was removed."""
        self._created.pop(tag, None)

    async def _existing(self, launch: LaunchSpec, uid: str) -> Pod:
        """The pod that was created for this launch before. Raises ContainerGone; ContainerUnusable."""
        pod = await self._pods.get(launch.tag)
        if pod is None or uid_of(pod) != uid:
            raise ContainerGone(f"the pod of {launch.tag} does not exist any more")
        state = self._reader.read(pod, launch.tag)
        if state.is_spent or state.state is ContainerState.GOING:
            raise ContainerUnusable(f"the container of pod {uid} never ran, and cannot: {state.refusal}")
        return pod

    async def _post(self, launch: LaunchSpec, body: Pod) -> Pod:
        """Create the pod, or return the one that an earlier create of this launch made."""
        reply = await self._pods.post(body)
        if reply.status == HTTPStatus.CONFLICT:
            existing = await self._existing_with_name(launch.tag)
            if existing is not None:
                return existing
            reply = await self._pods.post(body)
        if not reply.ok:
            raise create_refusal(reply)
        return reply.body

    async def _existing_with_name(self, tag: Tag) -> Pod | None:
        """The pod with the name of the tag; None if there was none that can start. Raises NameTaken."""
        pod = await self._pods.get(tag)
        if pod is None:
            return None
        if self._reader.tag_of(pod) != tag:
            raise NameTaken(f"pod {self._pods.name_of(tag)} does not belong to this server")
        state = self._reader.read(pod, tag)
        if not state.is_spent and state.state is not ContainerState.GOING:
            return pod
        await self._pods.remove(pod, REMOVE)
        return None

    async def _bind(self, tag: Tag, pod: Pod, machine: MachineName | None) -> None:
        """Bind the pod to the node on which the job was placed, once.

        Raises ContainerGone, and what `ClusterNodes.take` raises.
        """
        if machine is None:
            raise StartRefused("CannotStartContainerError: the job was placed on no node of the cluster")
        await self._nodes.take(pod, machine)
        reply = await self._pods.bind(pod, machine)
        if reply.ok:
            return
        self._nodes.release(uid_of(pod))
        if reply.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise RuntimeUnknown(f"start: {reply.message}")
        existing = await self._pods.get(tag)
        if existing is None or uid_of(existing) != uid_of(pod) or not is_bound(existing):
            raise ContainerGone(f"start: {reply.message}")

    async def _wait_for_run(self, tag: Tag, uid: str, changed: asyncio.Event) -> None:
        """Wait until the container runs or has ended. Raises the refusal of the start, or StartUnderWay."""
        end = self._clock.now() + timedelta(seconds=START_WAIT)
        while (left := (end - self._clock.now()).total_seconds()) > 0:
            changed.clear()
            if not self._watch.is_running:
                await self._clock.sleep(WATCH_PAUSE)
                await self._watch.ensure_running()
            seen = self._watch.current(tag, uid)
            if seen is not None and is_bound(seen) and await self._is_decided(tag, seen):
                return
            await _wait_at_most(left, changed)
        pod = await self._pods.get(tag)
        if pod is None or uid_of(pod) != uid:
            raise ContainerGone(f"the pod of {tag} does not exist any more")
        if await self._is_decided(tag, pod):
            return
        state = self._reader.read(pod, tag)
        raise StartUnderWay(state.waits_for or "the node starts the container")

    async def _is_decided(self, tag: Tag, pod: Pod) -> bool:
        """Whether the container runs or has ended. Raises the refusal of its start; ContainerGone."""
        state = self._reader.read(pod, tag)
        if state.has_run:
            return True
        if state.is_spent:
            self._nodes.release(uid_of(pod))
            self._nodes.read_again()
            raise state.refusal or ContainerGone(f"the container of {tag} was stopped before it ran")
        refusal = state.refusal or await self._mount_refusal(pod, state)
        if refusal is None and not is_being_deleted(pod):
            return False
        return await self._withdraw(tag, pod, refusal)

    async def _mount_refusal(self, pod: Pod, state: PodState) -> StartRefused | None:
        """The refusal of a pod whose volumes cannot be mounted, which only its events show."""
        if state.waits_for is None or self._clock.now() - accepted_at(pod) < MOUNT_WAIT:
            return None
        return mount_refusal(await self._pods.events(pod))

    async def _withdraw(self, tag: Tag, pod: Pod, refusal: ContainerRuntimeError | None) -> bool:
        """Delete a pod whose container does not start, and wait for its end, which shows whether it ran after all.

        The pod stays until it is removed: its annotation has the reason, also for the next server.
        """
        if withdrawn_for(pod) is None and refusal is not None:
            await self._pods.mark_deleted(pod, f"{WITHDRAW}{refusal}"[:MAX_REASON])
        await self._pods.delete(pod, grace=1)
        end = self._clock.now() + timedelta(seconds=WITHDRAWAL_WAIT)
        with self._watch.changes(tag) as changed:
            while self._clock.now() < end:
                changed.clear()
                found = await self._pods.get(tag)
                if found is None or uid_of(found) != uid_of(pod):
                    raise refusal or ContainerGone(f"the pod of {tag} was deleted before its container ran")
                state = self._reader.read(found, tag)
                if state.has_run:
                    return True
                if state.is_spent:
                    self._nodes.release(uid_of(pod))
                    raise state.refusal or refusal or ContainerGone(f"the pod of {tag} was deleted")
                await _wait_at_most(1.0, changed)
        raise StartUnderWay(f"the node has not confirmed yet that the container does not start: {refusal}")


def create_refusal(reply: ApiReply) -> ContainerRuntimeError:
    """The meaning of an error reply to the creation of a pod.

    A quota or a policy of the namespace (403) may allow the pod later.
    """
    text = f"CannotCreateContainerError: {reply.message}"[:MAX_REASON]
    if reply.status == HTTPStatus.FORBIDDEN:
        return StartRefused(text, certain=False)
    if reply.status in REFUSED_STATUSES or TOO_LARGE in reply.message:
        return StartRefused(text)
    return RuntimeUnknown(f"create: {reply.message}")


async def _wait_at_most(seconds: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
