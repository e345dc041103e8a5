"""Stops containers of pods: signals by `exec`, and SIGKILL by the deadline of the pod.

The first stop that a kubelet gets fixes the time until its SIGKILL; later ones change nothing. A signal by `exec` is no
stop of the kubelet's, so SIGKILL may follow at any time. An image without a shell is stopped by a deletion instead. One
container of several is killed by the held image, and no signal reaches it without a shell.
"""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from math import ceil

from batchq.compute.kubernetes.departed_nodes import DepartedNodes
from batchq.compute.kubernetes.exec_signal import Delivery, send_signal
from batchq.compute.kubernetes.log_reader import FollowedLog
from batchq.compute.kubernetes.pod_names import has_held_image, name_in_pod
from batchq.compute.kubernetes.pod_state import STOP
from batchq.compute.kubernetes.pods import Pod, Pods, is_being_deleted, is_shared
from batchq.compute.kubernetes.rest import RestClient
from batchq.compute.kubernetes.watching import PodReader
from batchq.domain.ids import Tag
from batchq.errors import ContainerGone, RuntimeUnknown
from batchq.ports.runtime import ContainerState

SIGTERM = "SIGTERM"
MAX_KILLS = 6  # of one container of several, before the pod is ended if no other container runs
MAX_FAILED_SIGNALS = 5  # of a container alone in its pod, before it is stopped by a deletion
#: Of one container of several, for which there is no other way, before its SIGKILL is due: two minutes or more.
MAX_FAILED_SHARED_SIGNALS = 120

log = logging.getLogger(__name__)


class PodStops:
    """The stops of one instance's pods."""

    def __init__(
        self,
        rest: RestClient,
        pods: Pods,
        reader: PodReader,
        departed: DepartedNodes,
        *,
        has_deadline_kill: Callable[[], bool],
    ) -> None:
        """`has_deadline_kill`: whether the server's kubelets keep exit code and log of a pod after its deadline."""
        self._rest = rest
        self._pods = pods
        self._reader = reader
        self._departed = departed
        self._has_deadline_kill = has_deadline_kill
        #: The logs of containers that are stopped by a deletion.
        self.followed: dict[Tag, FollowedLog] = {}
        #: By container, how often a signal could not be sent although the container runs.
        self._failed_signals: Counter[Tag] = Counter()
        #: By container of a shared pod, how often it was killed.
        self._kills: Counter[Tag] = Counter()
        self._notified: set[Tag] = set()

    async def signal_stop(self, tag: Tag, signal: str | None, grace: timedelta | None) -> None:
        pod = await self._running(tag)
        if is_being_deleted(pod):
            return  # the kubelet stops it already
        outcome = await send_signal(
            self._rest,
            self._pods.name_of(tag),
            name_in_pod(tag),
            signal or SIGTERM,
            shares_pids=bool(pod["spec"].get("shareProcessNamespace")),
        )
        if outcome is Delivery.FAILED:
            outcome = await self._after_failed_signal(tag)
        if outcome is Delivery.IMPOSSIBLE:
            await self._stop_by_deletion(tag, pod, signal or SIGTERM, grace)
        self._failed_signals.pop(tag, None)

    async def kill(self, tag: Tag) -> None:
        pod = await self._running(tag)
        if is_being_deleted(pod):
            self._notify_of_grace(tag, pod)
        elif is_shared(pod):
            await self._kill_alone(tag, pod)
        elif self._has_deadline_kill():
            await self._pods.kill(pod, tag)
        else:
            await self._delete(tag, pod, grace=1)

    async def forget(self, tag: Tag) -> None:
        """The pod of the tag was removed."""
        self._failed_signals.pop(tag, None)
        self._kills.pop(tag, None)
        self._notified.discard(tag)
        followed = self.followed.pop(tag, None)
        if followed is not None:
            await followed.close()

    async def close(self) -> None:
        for tag in tuple(self.followed):
            await self.forget(tag)

    async def _running(self, tag: Tag) -> Pod:
        """The pod, whose container runs on a node of the cluster. Raises ContainerGone."""
        pod = await self._pods.get(tag)
        has_left = await self._departed.include(pod)
        if (
            pod is None
            or self._reader.read_active(pod, tag, has_node_left=has_left).state is not ContainerState.RUNNING
        ):
            raise ContainerGone(f"the container of {tag} does not run")
        return pod

    async def _kill_alone(self, tag: Tag, pod: Pod) -> None:
        """Kill one container of several.

        If its kubelet ignores that for long and no other container runs, the pod is ended.
        """
        self._kills[tag] += 1
        await self._pods.kill(pod, tag)
        others = [other for other in self._reader.all_tags_of(pod) if other != tag]
        if self._kills[tag] > MAX_KILLS and not any(self._runs_on(pod, other) for other in others):
            log.warning("container %s: its node does not kill it alone, so its pod is ended", tag)
            await self._pods.end(pod)

    def _runs_on(self, pod: Pod, tag: Tag) -> bool:
        """Whether the container runs and was not killed."""
        is_killed = has_held_image(pod, name_in_pod(tag))
        return not is_killed and self._reader.read(pod, tag).state is ContainerState.RUNNING

    async def _after_failed_signal(self, tag: Tag) -> Delivery:
        """What a command means that did not reach the process. Raises ContainerGone if it has ended; RuntimeUnknown.

        A signal to one container of several waits for a node that does not answer: a deletion would wait there as well.
        """
        pod = await self._running(tag)
        is_counted = not is_shared(pod) or self._departed.nodes.does_answer(pod["spec"]["nodeName"])
        self._failed_signals[tag] += is_counted
        if self._failed_signals[tag] < (MAX_FAILED_SHARED_SIGNALS if is_shared(pod) else MAX_FAILED_SIGNALS):
            raise RuntimeUnknown(f"the node does not run a command in the container of {tag}")
        return Delivery.IMPOSSIBLE

    async def _stop_by_deletion(self, tag: Tag, pod: Pod, signal: str, grace: timedelta | None) -> None:
        if grace is None or is_shared(pod):
            # The deletion of a pod would stop its other containers as well.
            log.warning("container %s: %s was not sent: its image has no shell, or exec is not possible", tag, signal)
            return
        await self._delete(tag, pod, grace=max(1, ceil(grace.total_seconds())))

    async def _delete(self, tag: Tag, pod: Pod, *, grace: int) -> None:
        """Delete the pod while its log is followed: the log cannot be read after the end of a deleted pod."""
        if tag not in self.followed:
            self.followed[tag] = FollowedLog(
                self._rest, f"{self._pods.path}/{self._pods.name_of(tag)}", name_in_pod(tag)
            )
        await self.followed[tag].wait_until_connected()
        await self._pods.mark_deleted(pod, STOP)
        await self._pods.delete(pod, grace=grace)

    def _notify_of_grace(self, tag: Tag, pod: Pod) -> None:
        if tag not in self._notified:
            self._notified.add(tag)
            grace = pod["metadata"].get("deletionGracePeriodSeconds")
            log.warning("container %s: Kubernetes keeps the first grace of a stop (%s s)", tag, grace)
