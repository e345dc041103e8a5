"""Which pods are on a node that has left the cluster by an administrator's word, so that their containers are lost.

The kubelet of such a node reports nothing any more, and the finalizer keeps the pod with its last state. A node that
does not answer has not left: it may run its containers. The node watch may be behind, so a node counts as absent only
by a list that the API server has read anew.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from batchq.compute.kubernetes.nodes import NODES, ClusterNodes, is_out_of_service
from batchq.compute.kubernetes.pod_names import node_uid_of
from batchq.compute.kubernetes.pod_state import utc_of
from batchq.compute.kubernetes.pods import Pod, is_confirmed_deletion
from batchq.compute.kubernetes.rest import RestClient
from batchq.errors import RuntimeUnknown
from batchq.ports.clock import Clock

MAX_READING_AGE = timedelta(seconds=5)  # many pods of a node are read at the same time
#: How long a node that was registered again has to report what became of the pods of its predecessor. Measured: 4 s.
REPORT_WAIT = timedelta(seconds=60)


class NodeReading(Struct, frozen=True, kw_only=True):
    """A node as the API server read it."""

    at: datetime
    #: None: no node has the name.
    node: Mapping[str, Any] | None


class DepartedNodes:
    """The nodes that have left the cluster."""

    def __init__(self, rest: RestClient, nodes: ClusterNodes, clock: Clock) -> None:
        self._rest = rest
        self.nodes = nodes
        self._clock = clock
        #: By the name of the node.
        self._readings: dict[str, NodeReading] = {}

    async def include(self, pod: Pod | None) -> bool:
        """Whether the pod is bound to a node that has left. False if that is not known for certain."""
        name = None if pod is None else pod["spec"].get("nodeName")
        if pod is None or name is None:
            return False
        try:
            if not await self.nodes.may_have_left(name, node_uid_of(pod)):
                return False
            return has_left(await self._read(name), pod, now=self._rest.server_time())
        except RuntimeUnknown:
            return False

    async def _read(self, name: str) -> Mapping[str, Any] | None:
        """The node with the name; None: it does not exist. Raises RuntimeUnknown."""
        now = self._clock.now()
        self._readings = {key: known for key, known in self._readings.items() if now - known.at < MAX_READING_AGE}
        if name not in self._readings:
            # A list without a resourceVersion is read anew, and needs no other right than the watch.
            reply = await self._rest.get(NODES, {"fieldSelector": f"metadata.name={name}"})
            if not reply.ok:
                raise RuntimeUnknown(f"node {name} cannot be read: {reply.message}")
            nodes = reply.body.get("items") or ()
            self._readings[name] = NodeReading(at=now, node=next(iter(nodes), None))
        return self._readings[name].node


def has_left(node: Mapping[str, Any] | None, pod: Pod, *, now: datetime) -> bool:
    """Whether the node of the pod has left. `node` has its name now; None: no node has.

    A node that was deleted and registered again under its name has another uid. Its kubelet reports what became of the
    pod. Only if Kubernetes had deleted the pod meanwhile, that kubelet may not know the pod, and report nothing.
    """
    if node is None or is_out_of_service(node):
        return True
    created, uid = utc_of(node["metadata"].get("creationTimestamp")), node_uid_of(pod)
    is_another = uid is not None and node["metadata"]["uid"] != uid
    had_time = created is not None and now - created >= REPORT_WAIT
    return is_another and had_time and is_confirmed_deletion(pod)
