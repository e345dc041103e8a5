"""Follows the changes of all pods of the instance that are bound to nodes.

The watch delivers the ends of containers, and what a start waits for. Its events are hints: a survey is the truth.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from msgspec.structs import replace

from batchq.compute.kubernetes.list_watch import ListWatch
from batchq.compute.kubernetes.pod_names import REMOVED, all_tags_of_pod, has_container, name_in_pod, tags_of_pod
from batchq.compute.kubernetes.pod_state import (
    PodState,
    SeenRun,
    annotated_run,
    lost_with_node,
    read_pod,
    refused_again,
    seen_run,
)
from batchq.compute.kubernetes.pods import Pod, Pods, decode_pod, is_shared, uid_of, was_accepted
from batchq.compute.kubernetes.rest import RestClient
from batchq.compute.shared import EventQueue
from batchq.domain.ids import Tag
from batchq.errors import ContainerGone, StartHadNoEffect
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerState, DeathReport

#: Nothing happens to a pod before it is bound to a node.
ON_A_NODE = "spec.nodeName!="

log = logging.getLogger(__name__)


class PodReader:
    """Reads pods with the knowledge of earlier readings of the same pods."""

    def __init__(
        self,
        instance: str,
        clock: Clock,
        on_second_start: Callable[[Pod, Tag], None],
        *,
        is_old: Callable[[], bool],
    ) -> None:
        """`on_second_start` is called with a container that was started a second time, and its pod.

        `is_old`: see `read_pod`.
        """
        self._is_old = is_old
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

    def read_active(self, pod: Pod, tag: Tag, *, has_node_left: bool = False) -> PodState:
        """The state of a container of the pod. Raises ContainerGone if the pod does not have the container."""
        if tag not in self.tags_of(pod):
            raise ContainerGone(f"the container of {tag} does not exist")
        return self.read(pod, tag, has_node_left=has_node_left)

    def is_spent(self, pod: Pod) -> bool:
        """Whether the pod is over, or is being removed, and none of its containers ran or will run."""
        states = self.read_all(pod).values()
        return bool(states) and all(state.is_spent or state.state is ContainerState.GOING for state in states)

    def read_all(self, pod: Pod) -> Mapping[Tag, PodState]:
        """The states of all containers of the pod, also of those that were not created or were removed."""
        return {tag: self.read(pod, tag) for tag in self.all_tags_of(pod)}

    def read(self, pod: Pod, tag: Tag, *, has_node_left: bool = False) -> PodState:
        """The state of a container of the pod. `has_node_left`: whether DepartedNodes include the pod."""
        uid, name = uid_of(pod), name_in_pod(tag)
        state = read_pod(
            pod,
            tag,
            seen=self._seen.get(uid, {}).get(name) or annotated_run(pod, tag),
            now=self._clock.now(),
            is_old=self._is_old(),
        )
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
            log.error("container %s: its node created it a second time, so it may have run twice; it is killed", tag)
            self._on_second_start(pod, tag)
        return lost_with_node(pod, tag, state, self._clock.now()) if has_node_left else state

    @property
    def known_uids(self) -> frozenset[str]:
        """The uids of the pods of which something is known from earlier readings."""
        return frozenset((*self._seen, *self._accepted))

    def forget(self, uids: Collection[str]) -> None:
        """The pods with these uids do not exist any more."""
        for uid in uids:
            self._seen.pop(uid, None)
        self._accepted.difference_update(uids)
        self._ran_twice = {(uid, name) for uid, name in self._ran_twice if uid not in uids}


class PodWatch:
    """The watch of one instance, which runs from the first subscription or start on."""

    def __init__(
        self,
        rest: RestClient,
        pods: Pods,
        reader: PodReader,
        clock: Clock,
        *,
        on_bound: Callable[[Pod], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`on_bound` is called with a pod whenever it changes, until it ends.

        `on_end` is called with the uid of a pod that has ended, or is not followed any more.
        """
        self._all_pods = pods
        self._reader = reader
        self._on_bound = on_bound
        self._on_end = on_end
        self._list_watch = ListWatch(
            rest,
            clock,
            pods.path,
            {"labelSelector": f"{pods.selector['labelSelector']},!{REMOVED}", "fieldSelector": ON_A_NODE},
            on_change=lambda found: self._changed(decode_pod(found)),
            on_list=self._listed,
            on_delete=lambda found: self._removed(decode_pod(found)),
            on_end=self._ended_watch,
        )
        #: By name.
        self._pods: dict[str, Pod] = {}
        #: The containers of these pods that were created and not removed, by the name of the pod.
        self._tags: dict[str, tuple[Tag, ...]] = {}
        #: The containers whose end was reported, by the uid of the pod.
        self._ended: defaultdict[str, set[Tag]] = defaultdict(set)
        self._queues: set[EventQueue] = set()
        #: By the name of the pod.
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @property
    def is_running(self) -> bool:
        return self._list_watch.is_running

    async def ensure_running(self) -> None:
        """Start the watch unless it runs. Raises RuntimeUnknown."""
        await self._list_watch.ensure_running()

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

    @property
    def uids(self) -> frozenset[str]:
        """The uids of the pods that the watch follows."""
        return frozenset(map(uid_of, self._pods.values()))

    def current(self, tag: Tag, uid: str) -> Pod | None:
        """The pod as last seen; None: the pod with this uid was not seen."""
        pod = self.latest(tag)
        return pod if pod is not None and uid_of(pod) == uid else None

    def latest(self, tag: Tag) -> Pod | None:
        """The pod with the name of the tag as last seen; None: none was seen."""
        return self._pods.get(self._all_pods.name_of(tag))

    def ended(self, tag: Tag) -> Pod | None:
        """The pod of the tag, the only container of which has ended. Such a pod is never replaced by another one.

        None: the pod has several containers, or is not known to have ended.
        """
        pod = self.latest(tag) if self.is_running else None
        return pod if pod is not None and tag in self._ended.get(uid_of(pod), ()) and not is_shared(pod) else None

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
        await self._list_watch.close()

    def _ended_watch(self) -> None:
        for queue in self._queues:
            queue.put_nowait(None)
        self._queues.clear()
        for changed in (event for events in self._waiting.values() for event in events):
            changed.set()

    def _listed(self, uids: frozenset[str]) -> None:
        """Report what has been removed since the watch ended."""
        for pod in tuple(self._pods.values()):
            if uid_of(pod) not in uids:
                self._removed(pod)

    def _changed(self, pod: Pod) -> str:
        """Report what has changed of the pod, and return its uid."""
        uid, name, states = uid_of(pod), pod["metadata"]["name"], self._reader.read_all(pod)
        tags = tuple(tag for tag in states if has_container(pod, name_in_pod(tag)))
        earlier = self._pods.get(name)
        if earlier is not None and uid_of(earlier) != uid:
            self._removed(earlier)
        before = self._tags.get(name, ())
        self._pods[name], self._tags[name] = pod, tags
        for tag in tags:
            if states[tag].state is ContainerState.EXITED and tag not in self._ended[uid]:
                self._ended[uid].add(tag)
                self._report(DeathReport(tag=tag, found=states[tag].inspection))
        if all(_has_ended(state) for state in states.values()):
            self._on_end(uid)
        else:
            self._on_bound(pod)
        self._report_absent(uid, (tag for tag in before if tag not in tags))
        self._notify(name)
        return uid

    def _removed(self, pod: Pod) -> None:
        uid, name = uid_of(pod), pod["metadata"]["name"]
        current = self._pods.get(name)
        if current is not None and uid_of(current) == uid:
            del self._pods[name], self._tags[name]
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


def _has_ended(state: PodState) -> bool:
    """Whether the container neither runs nor will run: it has ended, cannot start, or its pod is being removed."""
    return state.is_spent or state.state in (ContainerState.EXITED, ContainerState.GOING)
