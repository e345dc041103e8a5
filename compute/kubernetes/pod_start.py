"""Creates and starts pods, each program at most once.

`create` stores a pod that no scheduler takes, and its uid is saved before the start. `start` binds the pod to a node by
one request with that uid, which the API server carries out at most once. A pod that was ever bound and is absent is
lost, and is never created again. Only a pod that shows that its containers never ran is replaced, under a new uid.

The containers of a node are one pod, which the `create` of the first one stores. Each has the held image until its own
start, which is one request with the container's mark, also carried out at most once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from http import HTTPStatus
from weakref import WeakValueDictionary

from batchq.compute.kubernetes.departed_nodes import DepartedNodes
from batchq.compute.kubernetes.nodes import ClusterNodes
from batchq.compute.kubernetes.pod_names import ContainerMark, mark_of, name_in_pod, pod_name, replaced_uids
from batchq.compute.kubernetes.pod_policy import MAX_REASON, PodPolicy, check_available, check_permitted
from batchq.compute.kubernetes.pod_spec import build_pod, build_secret, build_service, needs_secret, secrets_of
from batchq.compute.kubernetes.pod_state import REMOVE, WITHDRAW, PodState, withdrawn_for
from batchq.compute.kubernetes.pods import (
    Pod,
    Pods,
    changes_by_admission,
    decode_pod,
    is_being_deleted,
    is_bound,
    is_shared,
    uid_of,
)
from batchq.compute.kubernetes.quotas import namespace_refusal
from batchq.compute.kubernetes.start_refusals import create_refusal, mount_refusal
from batchq.compute.kubernetes.start_requests import StartRequests, wait_for_event
from batchq.compute.kubernetes.watching import PodReader, PodWatch
from batchq.compute.secrets import Secrets
from batchq.domain.ids import MachineName, Tag
from batchq.errors import (
    ContainerGone,
    ContainerRuntimeError,
    ContainerUnusable,
    ImageUnavailable,
    NameTaken,
    RuntimeUnknown,
    StartInterrupted,
    StartRefused,
    StartUnderWay,
)
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerState, Created, LaunchSpec

START_WAIT = 5.0  # seconds that a start waits for its container to run
WITHDRAWAL_WAIT = 15.0  # seconds that a withdrawal waits for the end of its pod
WATCH_PAUSE = 0.2  # seconds before the watch is started again, if it ended during a start
#: How long a kubelet has, since its container was first seen to wait, to mount volumes and to repeat a failed creation.
REPEAT_WAIT = timedelta(seconds=60)

log = logging.getLogger(__name__)


class PodStarts:
    """The pods of one instance until their containers run."""

    def __init__(
        self,
        *,
        instance: str,
        namespace: str,
        policy: PodPolicy,
        secrets: Secrets,
        pods: Pods,
        reader: PodReader,
        watch: PodWatch,
        nodes: ClusterNodes,
        departed: DepartedNodes,
        ensure_budget: Callable[[str], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """`ensure_budget`: see `DrainBudgets.ensure`."""
        self._instance = instance
        self._namespace = namespace
        self._policy = policy
        self._secrets = secrets
        self._pods = pods
        self._reader = reader
        self._watch = watch
        self._nodes = nodes
        self._departed = departed
        self._ensure_budget = ensure_budget
        self._clock = clock
        #: The launches of `create`, with the pods that it returned.
        self._created: dict[Tag, tuple[Pod, LaunchSpec]] = {}
        #: The pods whose final refusal was raised, by tag.
        self._refused: dict[Tag, str] = {}
        #: The pods whose bindings the API server has confirmed, by tag.
        self._bound: dict[Tag, str] = {}
        #: When a container was first seen to wait on its node, by tag and the uid of the pod.
        self._waits_since: dict[Tag, dict[str, datetime]] = {}
        self.requests = StartRequests()
        #: By the name of the pod: held while the start of one of its containers is requested.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create(self, launch: LaunchSpec) -> Created:
        check_available(launch, self._policy)
        check_permitted(launch, self._policy)
        self.requests.begin(launch.tag)
        created = None
        try:
            created = await self._create(launch)
        finally:
            if created is None or created.state is not ContainerState.CREATED:
                self.requests.end(launch.tag)
        return created

    async def _create(self, launch: LaunchSpec) -> Created:
        pod = await (self._post(launch) if launch.container_id is None else self._existing(launch, launch.container_id))
        if mark_of(pod, name_in_pod(launch.tag)) == ContainerMark.HELD:
            pod = await self._claim(pod, launch.tag)
        state = self._reader.read_active(pod, launch.tag)
        if not is_bound(pod) and state.state is ContainerState.CREATED:
            await self._create_owned(launch, uid_of(pod))
            await self._ensure_budget(launch.placed_on)
        self._created[launch.tag] = pod, launch
        name = pod_name(self._instance, launch.tag)
        return Created(container_id=_id_of(pod, launch.tag), state=state.state, pod=name)

    async def start(self, tag: Tag) -> None:
        await self._watch.ensure_running()
        pod, launch = self._created.get(tag, (None, None))
        pod = pod or await self._pods.get(tag)
        if pod is None:
            raise ContainerGone(f"no pod of {tag} exists")
        try:
            with self._watch.changes(tag) as changed:
                if launch is not None:
                    await self._request(tag, pod, launch)
                self.requests.end(tag)
                await self._wait_for_run(tag, uid_of(pod), changed)
        except (ImageUnavailable, StartRefused):
            self._refused[tag] = uid_of(pod)
            raise
        finally:
            self.requests.end(tag)
        self.forget(tag)

    def forget(self, tag: Tag) -> None:
        """The container of the tag has run, or was removed."""
        self._created.pop(tag, None)
        self._refused.pop(tag, None)
        self._bound.pop(tag, None)
        self._waits_since.pop(tag, None)
        self.requests.end(tag)

    async def _create_owned(self, launch: LaunchSpec, uid: str) -> None:
        """Create the Secret and the Service that the pod needs, and that are removed with it."""
        if needs_secret(launch):
            values = self._secrets.resolve(secrets_of(launch))
            secret = build_secret(launch, instance=self._instance, uid=uid, values=values)
            if secret is not None:
                await self._pods.ensure_owned("secrets", secret)
        if launch.nodes > 1 and launch.is_main_node:
            service = build_service(launch, instance=self._instance, uid=uid)
            await self._pods.ensure_owned("services", service)

    async def _existing(self, launch: LaunchSpec, container_id: str) -> Pod:
        """The pod that was created for this launch before.

        Raises ContainerGone; ContainerUnusable; the refusal of a start that its node has confirmed since the last try.
        """
        uid = container_id.partition("/")[0]
        pod = await self._pods.get(launch.tag)
        if pod is not None and uid in replaced_uids(pod):
            raise ContainerUnusable(f"pod {uid} was replaced, and none of its containers ran")
        if pod is None or uid_of(pod) != uid or launch.tag not in self._reader.tags_of(pod):
            raise ContainerGone(f"the container of {launch.tag} does not exist any more")
        if self._reader.is_spent(pod):
            refusal = self._reader.read(pod, launch.tag).refusal
            if isinstance(refusal, ImageUnavailable | StartRefused) and self._refused.get(launch.tag) != uid:
                self._refused[launch.tag] = uid
                raise refusal
            raise ContainerUnusable(f"no container of pod {uid} ran, and none can: {refusal}")
        return pod

    async def _post(self, launch: LaunchSpec) -> Pod:
        """Create the pod, or return the one that an earlier create of this node made."""
        requested = self._build(launch)
        reply = await self._pods.post(requested)
        refusal = namespace_refusal(reply)
        # A quota is checked before the name: the existing pod itself may use the quota up.
        if reply.status == HTTPStatus.CONFLICT or refusal is not None:
            existing = await self._pods.get(launch.tag)
            if existing is None and refusal is not None:
                raise refusal
            if existing is not None and launch.tag not in self._reader.all_tags_of(existing):
                raise NameTaken(f"pod {self._pods.name_of(launch.tag)} does not belong to this server")
            if existing is not None and not self._reader.is_spent(existing):
                return existing
            replaces: tuple[str, ...] = ()
            if existing is not None:
                await self._pods.remove(existing, REMOVE)
                replaces = (*replaced_uids(existing), uid_of(existing))
            requested = self._build(launch, replaces)
            reply = await self._pods.post(requested)
        if not reply.ok:
            raise namespace_refusal(reply) or create_refusal(reply)
        created = decode_pod(reply.content)
        for container, change in changes_by_admission(requested, created).items():
            pod = created["metadata"]["name"]
            log.info("pod %s: the admission of the cluster changed its container %s: %s", pod, container, change)
        return created

    def _build(self, launch: LaunchSpec, replaces: tuple[str, ...] = ()) -> Pod:
        return build_pod(
            launch, instance=self._instance, policy=self._policy, namespace=self._namespace, replaces=replaces
        )

    async def _claim(self, pod: Pod, tag: Tag) -> Pod:
        """Mark a container as created whose pod another container's `create` has made. Raises RuntimeUnknown."""
        reply = await self._pods.claim(pod, tag)
        if not reply.ok:
            raise RuntimeUnknown(f"create: the pod changed meanwhile: {reply.message}")
        return reply.body

    async def _request(self, tag: Tag, pod: Pod, launch: LaunchSpec) -> None:
        """Bind the pod to a node and give the container its image, each once.

        Raises ContainerGone; StartHadNoEffect; StartRefused.
        """
        if not is_shared(pod):
            if not is_bound(pod):
                await self._bind(tag, pod, launch.machine)
            return
        async with self._locks.setdefault(self._pods.name_of(tag), asyncio.Lock()):
            current = await self._read(tag, uid_of(pod))
            if not is_bound(current):
                await self._bind(tag, current, launch.machine)
        if mark_of(current, name_in_pod(tag)) != ContainerMark.CREATED:
            return
        state = self._reader.read(current, tag)
        if state.is_spent:
            raise self._final_refusal(tag, current, state)
        reply = await self._pods.start_container(current, tag, launch.spec.image)
        if reply.ok:
            return
        existing = await self._pods.get(tag)
        if existing is None or uid_of(existing) != uid_of(pod) or tag not in self._reader.tags_of(existing):
            raise ContainerGone(f"start: {reply.message}")
        if mark_of(existing, name_in_pod(tag)) == ContainerMark.CREATED:
            raise StartRefused(f"CannotStartContainerError: {reply.message}"[:MAX_REASON])

    async def _bind(self, tag: Tag, pod: Pod, machine: MachineName | None) -> None:
        """Bind the pod to the node on which the job was placed, once.

        Raises ContainerGone, and what `ClusterNodes.take` raises.
        """
        if machine is None:
            raise StartRefused("CannotStartContainerError: the job was placed on no node of the cluster")
        if self._bound.get(tag) == uid_of(pod):
            await self._check_bound(tag, pod)
            return
        node_uid = await self._nodes.take(pod, machine)
        reply = await self._pods.bind(pod, machine, node_uid)
        if reply.ok:
            self._bound[tag] = uid_of(pod)
            return
        self._nodes.release(uid_of(pod))
        if reply.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise RuntimeUnknown(f"start: {reply.message}")
        existing = await self._pods.get(tag)
        if existing is None or uid_of(existing) != uid_of(pod):
            raise ContainerGone(f"start: {reply.message}")
        if not is_bound(existing) and is_being_deleted(existing):
            raise ContainerGone(f"start: {reply.message}")
        if not is_bound(existing):  # an admission webhook has added a scheduling gate
            raise StartRefused(f"CannotStartContainerError: {reply.message}"[:MAX_REASON], certain=False)

    async def _check_bound(self, tag: Tag, pod: Pod) -> None:
        """Raises StartInterrupted if a pod is not bound any more: its program may have run.

        The API server has an earlier state then, as that of a backup of etcd.
        """
        existing = await self._pods.get(tag)
        if existing is not None and uid_of(existing) == uid_of(pod) and not is_bound(existing):
            raise StartInterrupted(f"the API server has lost the binding of {tag}")

    async def _wait_for_run(self, tag: Tag, uid: str, changed: asyncio.Event) -> None:
        """Wait until the container runs or has ended. Raises the refusal of the start, or StartUnderWay."""
        end = self._clock.now() + timedelta(seconds=START_WAIT)
        while (left := (end - self._clock.now()).total_seconds()) > 0:
            changed.clear()
            if not self._watch.is_running:
                await self._clock.sleep(WATCH_PAUSE)
                await self._watch.ensure_running()
            seen = self._watch.current(tag, uid)
            if seen is not None and _is_requested(seen, tag) and await self._is_decided(tag, seen, is_read=False):
                return
            await wait_for_event(left, changed)
        pod = await self._read(tag, uid)
        if await self._is_decided(tag, pod, is_read=True):
            return
        state = self._reader.read_active(pod, tag)
        raise StartUnderWay(state.waits_for or "the node starts the container")

    async def _read(self, tag: Tag, uid: str) -> Pod:
        """The pod with this uid. Raises ContainerGone."""
        pod = await self._pods.get(tag)
        if pod is None or uid_of(pod) != uid:
            raise ContainerGone(f"the pod of {tag} does not exist any more")
        return pod

    async def _is_decided(self, tag: Tag, pod: Pod, *, is_read: bool) -> bool:
        """Whether the container runs or has ended. Raises the refusal of its start; ContainerGone; StartInterrupted.

        `is_read`: whether the pod was read just now. A watch may be behind, and a withdrawal ends what runs.
        """
        has_left = is_read and await self._departed.include(pod)
        state = self._reader.read_active(pod, tag, has_node_left=has_left)
        if state.has_run:
            return True
        if state.is_spent:
            raise self._final_refusal(tag, pod, state)
        if state.waits_for is not None and self._is_repeated(tag, pod):
            return False
        if not is_read and (state.refusal is not None or is_being_deleted(pod)):
            return await self._is_decided(tag, await self._read(tag, uid_of(pod)), is_read=True)
        refusal = state.refusal
        is_new = isinstance(refusal, ImageUnavailable) and withdrawn_for(pod) is None
        if refusal is not None and (is_shared(pod) or (is_new and not is_being_deleted(pod))):
            return await self._withdraw(tag, pod, refusal, by_image=True)
        if refusal is None and state.waits_for is not None and not is_being_deleted(pod):
            refusal = mount_refusal(await self._pods.events(pod))  # only events show volumes that cannot be mounted
        if refusal is None and not is_being_deleted(pod):
            return False
        return await self._withdraw(tag, pod, refusal, by_image=False)

    def _final_refusal(self, tag: Tag, pod: Pod, state: PodState) -> ContainerRuntimeError:
        """Why the container will never run. In a pod of which another container ran it cannot be created again."""
        if self._reader.is_spent(pod):
            self._nodes.release(uid_of(pod))
        elif state.refusal is None or (isinstance(state.refusal, StartRefused) and state.refusal.host_failed):
            return StartInterrupted(f"the node of {tag} was lost during the start: {state.refusal}")
        return state.refusal or ContainerGone(f"the container of {tag} was stopped before it ran")

    def _is_repeated(self, tag: Tag, pod: Pod) -> bool:
        """Whether the kubelet still has time to start the container by itself, by the clock of this process only.

        A pod that is withdrawn while its kubelet repeats the start may run beside the pod that replaces it.
        """
        now = self._clock.now()
        since = self._waits_since.setdefault(tag, {}).setdefault(uid_of(pod), now)
        return not is_being_deleted(pod) and now - since < REPEAT_WAIT

    async def _withdraw(self, tag: Tag, pod: Pod, refusal: ContainerRuntimeError | None, *, by_image: bool) -> bool:
        """Give up a start, and wait until the node shows whether the container ran after all.

        `by_image`: the container gets the held image, which its node confirms at once. Otherwise, or if the cluster
        refuses that image, the pod is deleted. It stays until it is removed. The reason is in an annotation, also for
        the next server.
        """
        why = str(refusal)[:MAX_REASON] if is_shared(pod) else f"{WITHDRAW}{refusal}"[:MAX_REASON]
        if not by_image or not await self._pods.withdraw_container(pod, tag, why):
            if withdrawn_for(pod) is None and refusal is not None:
                await self._pods.mark_deleted(pod, why)
            await self._pods.delete(pod, grace=1)
        end = self._clock.now() + timedelta(seconds=WITHDRAWAL_WAIT)
        with self._watch.changes(tag) as changed:
            while (left := (end - self._clock.now()).total_seconds()) > 0:
                changed.clear()
                found = await self._pods.get(tag)
                if found is None or uid_of(found) != uid_of(pod):
                    raise refusal or ContainerGone(f"the pod of {tag} was deleted before its container ran")
                has_left = await self._departed.include(found)
                state = self._reader.read_active(found, tag, has_node_left=has_left)
                if state.has_run:
                    return True
                if state.is_spent:
                    raise self._final_refusal(tag, found, state) if state.refusal or not refusal else refusal
                await wait_for_event(min(1.0, left), changed)
        raise StartUnderWay(f"the node has not confirmed yet that the container does not start: {refusal}")


def _is_requested(pod: Pod, tag: Tag) -> bool:
    """Whether the pod shows that the start was requested: the watch may be behind."""
    return is_bound(pod) and mark_of(pod, name_in_pod(tag)) not in (ContainerMark.HELD, ContainerMark.CREATED)


def _id_of(pod: Pod, tag: Tag) -> str:
    """The id of a container: the uid of its pod, and its name if the attempt has several containers."""
    return f"{uid_of(pod)}/{name_in_pod(tag)}" if tag.container_key else uid_of(pod)
