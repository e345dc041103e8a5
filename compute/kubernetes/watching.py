"""Follows the changes of all pods of the instance by one list and one watch after it.

The watch delivers the ends of containers, and what a start waits for. Its events are hints: a survey is the truth.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from http import HTTPStatus

from msgspec.structs import replace

from batchq.compute.kubernetes.pod_spec import tag_of_pod
from batchq.compute.kubernetes.pod_state import PodState, SeenRun, read_pod, seen_run
from batchq.compute.kubernetes.pods import Pod, Pods, uid_of
from batchq.compute.kubernetes.rest import RestClient
from batchq.compute.shared import EventQueue
from batchq.domain.ids import Tag
from batchq.errors import RuntimeUnknown
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerState, DeathReport

WATCH_SECONDS = 300  # after it the pods are listed anew
SHORTEST_WATCH = timedelta(seconds=1)  # after a shorter watch the next subscription or start begins another

log = logging.getLogger(__name__)


class PodReader:
    """Reads pods with the knowledge of earlier readings of the same pods."""

    def __init__(self, instance: str, clock: Clock, on_second_start: Callable[[Pod], None]) -> None:
        """`on_second_start` is called with a pod whose container was started a second time."""
        self._instance = instance
        self._clock = clock
        self._on_second_start = on_second_start
        #: By the uid of the pod.
        self._seen: dict[str, SeenRun] = {}
        self._ran_twice: set[str] = set()

    def tag_of(self, pod: Pod) -> Tag | None:
        """The tag of the pod; None: not a pod of a job of this instance."""
        return tag_of_pod(pod, self._instance)

    def read(self, pod: Pod, tag: Tag) -> PodState:
        uid = uid_of(pod)
        state = read_pod(pod, tag, seen=self._seen.get(uid), now=self._clock.now())
        run = seen_run(state)
        if run is not None:
            # The first container counts: a second one is a second start.
            first = self._seen.setdefault(uid, run)
            self._seen[uid] = replace(first, stopped_at=first.stopped_at or run.stopped_at)
        if state.ran_twice and uid not in self._ran_twice:
            self._ran_twice.add(uid)
            log.error("container %s: the node started it a second time; it is killed", tag)
            self._on_second_start(pod)
        return state

    def forget(self, uid: str) -> None:
        """The pod with the uid does not exist any more."""
        self._seen.pop(uid, None)
        self._ran_twice.discard(uid)


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
        self._pods: dict[Tag, Pod] = {}
        #: The uids of pods whose end was reported.
        self._ended: set[str] = set()
        self._queues: set[EventQueue] = set()
        self._waiting: defaultdict[Tag, set[asyncio.Event]] = defaultdict(set)
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
        pod = self._pods.get(tag)
        return pod if pod is not None and uid_of(pod) == uid else None

    @contextmanager
    def changes(self, tag: Tag) -> Iterator[asyncio.Event]:
        """An event that is set whenever the pod of the tag changes."""
        changed = asyncio.Event()
        self._waiting[tag].add(changed)
        try:
            yield changed
        finally:
            self._waiting[tag].discard(changed)
            if not self._waiting[tag]:
                del self._waiting[tag]

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
        tagged = {tag: pod for pod in pods if (tag := self._reader.tag_of(pod)) is not None}
        for tag, pod in tuple(self._pods.items()):
            if tag not in tagged or uid_of(tagged[tag]) != uid_of(pod):
                self._removed(tag, pod)
        for tag, pod in tagged.items():
            self._changed(tag, pod)
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
                change = json.loads(line)
                if change["type"] == "ERROR":
                    return
                self._apply(change["type"], change["object"])

    def _apply(self, kind: str, pod: Pod) -> None:
        tag = None if kind == "BOOKMARK" else self._reader.tag_of(pod)
        if tag is None:
            return
        if kind == "DELETED":
            self._removed(tag, pod)
        else:
            self._changed(tag, pod)

    def _changed(self, tag: Tag, pod: Pod) -> None:
        uid, self._pods[tag] = uid_of(pod), pod
        state = self._reader.read(pod, tag)
        if state.is_spent:
            self._on_end(uid)
        if state.state is ContainerState.EXITED and uid not in self._ended:
            self._ended.add(uid)
            self._on_end(uid)
            self._report(DeathReport(tag=tag, found=state.inspection))
        for changed in self._waiting.get(tag, ()):
            changed.set()

    def _removed(self, tag: Tag, pod: Pod) -> None:
        uid = uid_of(pod)
        current = self._pods.get(tag)
        if current is not None and uid_of(current) == uid:
            del self._pods[tag]
        self._ended.discard(uid)
        self._reader.forget(uid)
        self._on_end(uid)
        self._report(tag)
        for changed in self._waiting.get(tag, ()):
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
