"""Follows the changes of all pods of the instance by one list and one watch after it.

The watch delivers the ends of containers, and what a start waits for. Its events are hints: a survey is the truth.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from http import HTTPStatus

import msgspec
from msgspec.structs import replace

from batchq.compute.kubernetes.pod_names import all_tags_of_pod, name_in_pod, tags_of_pod
from batchq.compute.kubernetes.pod_state import PodState, SeenRun, read_pod, refused_again, seen_run
from batchq.compute.kubernetes.pods import Pod, Pods, uid_of, was_accepted
from batchq.compute.kubernetes.rest import RestClient
from batchq.compute.shared import EventQueue
from batchq.domain.ids import Tag
from batchq.errors import ContainerGone, RuntimeUnknown, StartHadNoEffect
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerState, DeathReport

WATCH_SECONDS = 300  # after it the pods are listed anew
SHORTEST_WATCH = timedelta(seconds=1)  # after a shorter watch the next subscription or start begins another

log = logging.getLogger(__name__)


class PodReader:
    """Reads pods with the knowledge of earlier readings of the same pods."""

    def __init__(self, instance: str, clock: Clock, on_second_start: Callable[[Pod, Tag], None]) -> None:
        """`on_second_start` is called with a container that was started a second time, and its pod."""
        self._instance = instance
        self._clock = clock
        self._on_second_start = on_second_start
        #: The runs of the containers by name, by the uid of the pod.
        self._seen: defaultdict[str, dict[str, SeenRun]] = defaultdict(dict)
        self._ran_twice: set[tuple[str, str]] = set()
        #: The uids of pods that their kubelets have accepted.
        self._accepted: set[str] = set()

    def tags_of(self, pod: Pod) -> tuple[Tag, ...]:
        """The containers of the pod that were created and not removed; empty: not a pod of this instance."""
        return tuple(tags_of_pod(pod, self._instance).values())

    def all_tags_of(self, pod: Pod) -> tuple[Tag, ...]:
        """All containers of the pod, also those that were not created or were removed."""
        return tuple(all_tags_of_pod(pod, self._instance).values())

    def read_active(self, pod: Pod, tag: Tag) -> PodState:
        """The state of a container of the pod. Raises ContainerGone if the pod does not have the container."""
        if tag not in self.tags_of(pod):
            raise ContainerGone(f"the container of {tag} does not exist")
        return self.read(pod, tag)

    def is_spent(self, pod: Pod) -> bool:
        """Whether the pod is over, or is being removed, and none of its containers ran or will run."""
        states = [self.read(pod, tag) for tag in self.all_tags_of(pod)]
        return bool(states) and all(state.is_spent or state.state is ContainerState.GOING for state in states)

    def is_over(self, pod: Pod) -> bool:
        """Whether no container of the pod runs or will run."""
        states = [self.read(pod, tag) for tag in self.all_tags_of(pod)]
        return all(state.is_spent or state.state is ContainerState.EXITED for state in states)

    def read(self, pod: Pod, tag: Tag) -> PodState:
        uid, name = uid_of(pod), name_in_pod(tag)
        state = read_pod(pod, tag, seen=self._seen.get(uid, {}).get(name), now=self._clock.now())
        if was_accepted(pod):
            self._accepted.add(uid)
        elif isinstance(state.refusal, StartHadNoEffect) and uid in self._accepted:
            state = refused_again(pod, tag, self._clock.now())
        run = seen_run(state)
        if run is not None:
            # The first container counts: a second one is a second start.
            first = self._seen[uid].setdefault(name, run)
            self._seen[uid][name] = replace(first, stopped_at=first.stopped_at or run.stopped_at)
        if state.ran_twice and (uid, name) not in self._ran_twice:
            self._ran_twice.add((uid, name))
            log.error("container %s: the node started it a second time; it is killed", tag)
            self._on_second_start(pod, tag)
        return state

    def forget(self, uid: str) -> None:
        """The pod with the uid does not exist any more."""
        self._seen.pop(uid, None)
        self._accepted.discard(uid)
        self._ran_twice = {ran_twice for ran_twice in self._ran_twice if ran_twice[0] != uid}


class PodWatch:
    """The watch of one instance, which runs from the first subscription or start on."""

    def __init__(
        self, rest: RestClient, pods: Pods, reader: PodReader, clock: Clock, on_end: Callable[[str], None]
    ) -> None:
        """`on_end` is called with the uid of a pod that has ended or does not exist any more."""
        self._rest = rest
        self._all_pods = pods
        self._reader = reader
        self._clock = clock
        self._on_end = on_end
        #: By name.
        self._pods: dict[str, Pod] = {}
        #: The containers whose end was reported, by the uid of the pod.
        self._ended: defaultdict[str, set[Tag]] = defaultdict(set)
        self._queues: set[EventQueue] = set()
        #: By the name of the pod.
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def ensure_running(self) -> None:
        """Start the watch unless it runs. Raises RuntimeUnknown."""
        async with self._starting:
            if not self.is_running:
                version = await self._list()
                self._task = asyncio.create_task(self._follow(version), name="kubernetes: watch")

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        """The ends of containers from now on."""
        await self.ensure_running()
        queue = EventQueue()
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    def current(self, tag: Tag, uid: str) -> Pod | None:
        """The pod as last seen; None: the pod with this uid was not seen."""
        pod = self._pods.get(self._all_pods.name_of(tag))
        return pod if pod is not None and uid_of(pod) == uid else None

    @contextmanager
    def changes(self, tag: Tag) -> Iterator[asyncio.Event]:
        """An event that is set whenever the pod of the tag changes."""
        changed, name = asyncio.Event(), self._all_pods.name_of(tag)
        self._waiting[name].add(changed)
        try:
            yield changed
        finally:
            self._waiting[name].discard(changed)
            if not self._waiting[name]:
                del self._waiting[name]

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self, version: str) -> None:
        try:
            while True:
                began = self._clock.now()
                await self._watch(version)
                if self._clock.now() - began < SHORTEST_WATCH:
                    return
                version = await self._list()
        except RuntimeUnknown as unknown:
            log.debug("the watch of pods ended: %s", unknown)
        finally:
            for queue in self._queues:
                queue.put_nowait(None)
            self._queues.clear()
            for changed in (event for events in self._waiting.values() for event in events):
                changed.set()

    async def _list(self) -> str:
        """Read all pods, report what has changed since the watch ended, and return the version of the list."""
        pods, version = await self._all_pods.list()
        named = {pod["metadata"]["name"]: pod for pod in pods}
        for name, pod in tuple(self._pods.items()):
            if name not in named or uid_of(named[name]) != uid_of(pod):
                self._removed(pod)
        for pod in pods:
            self._changed(pod)
        return version

    async def _watch(self, version: str) -> None:
        """Apply changes until the server ends the watch, or does not know the version any more."""
        query = {
            **self._all_pods.selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async with self._rest.stream(self._all_pods.path, query) as response:
            if response.status == HTTPStatus.GONE:
                return
            if response.status != HTTPStatus.OK:
                raise RuntimeUnknown(f"watch pods: status {response.status}")
            async for line in read_json_lines(response.content.iter_any()):
                change = msgspec.json.decode(line)
                if change["type"] == "ERROR":
                    return
                self._apply(change["type"], change["object"])

    def _apply(self, kind: str, pod: Pod) -> None:
        if kind == "DELETED":
            self._removed(pod)
        elif kind != "BOOKMARK":
            self._changed(pod)

    def _changed(self, pod: Pod) -> None:
        uid, name, tags = uid_of(pod), pod["metadata"]["name"], self._reader.tags_of(pod)
        before = self._tags_seen(name)
        self._pods[name] = pod
        for tag in tags:
            state = self._reader.read(pod, tag)
            if state.state is ContainerState.EXITED and tag not in self._ended[uid]:
                self._ended[uid].add(tag)
                self._report(DeathReport(tag=tag, found=state.inspection))
        if self._reader.is_over(pod):
            self._on_end(uid)
        self._report_absent(uid, (tag for tag in before if tag not in tags))
        self._notify(name)

    def _tags_seen(self, name: str) -> tuple[Tag, ...]:
        """The containers of the pod with this name, as last seen."""
        return self._reader.tags_of(self._pods[name]) if name in self._pods else ()

    def _removed(self, pod: Pod) -> None:
        uid, name = uid_of(pod), pod["metadata"]["name"]
        current = self._pods.get(name)
        if current is not None and uid_of(current) == uid:
            del self._pods[name]
        self._reader.forget(uid)
        self._on_end(uid)
        self._report_absent(uid, self._reader.tags_of(pod))
        self._ended.pop(uid, None)
        self._notify(name)

    def _report_absent(self, uid: str, tags: Iterable[Tag]) -> None:
        """Report containers that exist no longer, unless their end was reported: each report costs an inspection."""
        for tag in tags:
            if tag not in self._ended.get(uid, ()):
                self._report(tag)

    def _notify(self, name: str) -> None:
        for changed in self._waiting.get(name, ()):
            changed.set()

    def _report(self, death: Tag | DeathReport) -> None:
        for queue in self._queues:
            queue.put_nowait(death)


async def read_json_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The complete lines of a stream; a pod may be longer than the limit of asyncio's own reader."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            if line:
                yield line
