"""The nodes of the cluster: as machines, on which batchq places jobs, and their room when a pod is bound.

The kubelet refuses a pod for which its node has too little CPU or memory. It does not check GPUs, cordons and taints of
the node, so batchq does. The room is checked again before a pod is bound: pods of others may have come meanwhile.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from math import ceil
from typing import Any

from msgspec import Struct

from batchq.compute.kubernetes.pod_names import ENVIRONMENT_LABEL, INSTANCE
from batchq.compute.kubernetes.pod_spec import GPU
from batchq.compute.kubernetes.pod_state import utc_of
from batchq.compute.kubernetes.pods import Pod, is_bound, uid_of
from batchq.compute.kubernetes.rest import RestClient
from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.ids import ContainerEngineName, MachineName
from batchq.domain.machines import Machine
from batchq.domain.task import total
from batchq.errors import RuntimeUnknown, StartHadNoEffect, StartInterrupted, StartRefused
from batchq.ports.clock import Clock
from batchq.settings import Runtime

MAX_AGE = timedelta(seconds=10)  # of the knowledge about nodes and their pods
#: Taints that Kubernetes sets for conditions of a node, which pass.
CONDITIONS = "node.kubernetes.io/"
EFFECTS = frozenset({"NoSchedule", "NoExecute"})
MIB = 2**20
_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** (power + 1) for power, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Decimal(1024) ** (power + 1) for power, unit in enumerate("KMGTPE")},
}


class NodeRoom(Struct, kw_only=True):
    """A node that takes pods of jobs, at least at times."""

    name: str
    labels: Mapping[str, str]
    allocatable: Resources
    #: The number of pods that the node takes.
    max_pods: int
    #: The demands of the pods on the node that have not ended, by uid.
    demands: dict[str, Resources]
    #: The demands among them of pods that this instance did not create.
    foreign: list[Resources]
    #: Whether it takes no new pods, by a cordon or a condition.
    is_cordoned: bool
    #: Since when its kubelet does not answer; None: it answers.
    away_since: datetime | None

    @property
    def free(self) -> Resources:
        used = total(self.demands.values())
        return Resources(
            millicpus=self.allocatable.millicpus - used.millicpus,
            memory_mib=self.allocatable.memory_mib - used.memory_mib,
            gpus=self.allocatable.gpus - used.gpus,
        )

    def takes(self, demand: Resources) -> bool:
        return _fits(demand, self.free) and len(self.demands) < self.max_pods

    def machine(self) -> Machine:
        """The machine that batchq places jobs on, without what pods of others reserve."""
        used, environment = total(self.foreign), self.labels.get(ENVIRONMENT_LABEL)
        return Machine(
            name=MachineName(self.name),
            resources=Resources(
                millicpus=max(0, self.allocatable.millicpus - used.millicpus),
                memory_mib=max(0, self.allocatable.memory_mib - used.memory_mib),
                gpus=max(0, self.allocatable.gpus - used.gpus),
            ),
            is_enforced=True,
            max_nodes=max(0, self.max_pods - len(self.foreign)),
            engine=ContainerEngineName(Runtime.KUBERNETES),
            labels=tuple(sorted(self.labels.items())),
            environment=None if environment is None else EnvironmentName(environment),
            is_cordoned=self.is_cordoned,
            away_since=self.away_since,
        )


class ClusterNodes:
    """The nodes of the cluster, read again after MAX_AGE and after a refusal by a node."""

    def __init__(self, rest: RestClient, instance: str, clock: Clock) -> None:
        self._rest = rest
        self._instance = instance
        self._clock = clock
        self._nodes: dict[str, NodeRoom] = {}
        self._read_at: datetime | None = None
        #: The nodes of pods that were bound since the nodes were read, by uid.
        self._placed: dict[str, tuple[str, Resources]] = {}

    async def take(self, pod: Pod, name: str) -> None:
        """Reserve room for the pod on this node.

        Raises StartInterrupted if the node has left; StartHadNoEffect if it has no room; StartRefused if it has another
        platform than the pod requires.
        """
        await self._refresh()
        node, demand = self._nodes.get(name), demand_of(pod)
        if node is None:
            raise StartInterrupted(f"node {name} is no longer in the cluster")
        selector = pod["spec"].get("nodeSelector") or {}
        wrong = [f"{key}={node.labels.get(key)}" for key, value in selector.items() if node.labels.get(key) != value]
        if wrong:
            raise StartRefused(f"CannotStartContainerError: node {name} has {', '.join(wrong)}")
        if not node.takes(demand):
            raise StartHadNoEffect(f"start: node {name} has no room for the pod")
        node.demands[uid_of(pod)] = demand
        self._placed[uid_of(pod)] = name, demand

    def release(self, uid: str) -> None:
        """The pod does not need its node any more."""
        self._placed.pop(uid, None)
        for node in self._nodes.values():
            node.demands.pop(uid, None)

    def read_again(self) -> None:
        """Read the nodes again before the next choice: a node has refused a pod."""
        self._read_at = None

    async def machines(self) -> tuple[Machine, ...]:
        """The nodes as machines, without those whose taints exclude jobs for ever."""
        self.read_again()
        await self._refresh()
        return tuple(node.machine() for node in self._nodes.values())

    async def _refresh(self) -> None:
        now = self._clock.now()
        if self._read_at is not None and now - self._read_at < MAX_AGE:
            return
        reply = await self._rest.get("/api/v1/nodes")
        items = reply.body.get("items")
        if not isinstance(items, list):
            raise RuntimeUnknown(f"list nodes: {reply.message}")
        rooms = map(node_room, items)
        nodes = {room.name: room for room in rooms if room is not None}
        seen = set()
        for pod in await self._pods():
            seen.add(uid_of(pod))
            if not is_bound(pod) or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            name = pod["spec"]["nodeName"]
            if name in nodes:
                nodes[name].demands[uid_of(pod)] = demand_of(pod)
                if (pod["metadata"].get("labels") or {}).get(INSTANCE) != self._instance:
                    nodes[name].foreign.append(demand_of(pod))
        self._placed = {uid: value for uid, value in self._placed.items() if uid not in seen}
        for uid, (name, demand) in self._placed.items():
            if name in nodes:
                nodes[name].demands[uid] = demand
        self._nodes, self._read_at = nodes, now

    async def _pods(self) -> list[Pod]:
        """The pods of all namespaces; without the right to list them only those of the jobs' namespace."""
        query = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
        reply = await self._rest.request("GET", "/api/v1/pods", query=query)
        if reply.status == HTTPStatus.FORBIDDEN:
            reply = await self._rest.get(f"{self._rest.namespaced}/pods", query)
        items = reply.body.get("items")
        if not reply.ok or not isinstance(items, list):
            raise RuntimeUnknown(f"list pods: {reply.message}")
        return items


def node_room(node: Mapping[str, Any]) -> NodeRoom | None:
    """The room of a node; None: it has a taint that pods of jobs do not tolerate."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    taints = [str(taint.get("key")) for taint in spec.get("taints") or () if taint.get("effect") in EFFECTS]
    if any(not key.startswith(CONDITIONS) for key in taints):
        return None
    conditions = status.get("conditions") or ()
    ready: Mapping[str, Any] = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
    allocatable = status.get("allocatable") or {}
    return NodeRoom(
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        allocatable=Resources(
            millicpus=int(quantity(allocatable.get("cpu")) * 1000),
            memory_mib=int(quantity(allocatable.get("memory")) / MIB),
            gpus=int(quantity(allocatable.get(GPU))),
        ),
        max_pods=int(quantity(allocatable.get("pods") or "110")),
        demands={},
        foreign=[],
        is_cordoned=bool(spec.get("unschedulable")) or bool(taints) or ready.get("status") != "True",
        away_since=utc_of(ready.get("lastTransitionTime")) if ready.get("status") == "Unknown" else None,
    )


def demand_of(pod: Pod) -> Resources:
    """What the kubelet reserves for the pod."""
    spec = pod["spec"]
    running = total(map(_requests, spec.get("containers") or ()))
    largest = [_requests(container) for container in spec.get("initContainers") or ()]
    return Resources(
        millicpus=max([running.millicpus, *(resources.millicpus for resources in largest)]),
        memory_mib=max([running.memory_mib, *(resources.memory_mib for resources in largest)]),
        gpus=max([running.gpus, *(resources.gpus for resources in largest)]),
    )


def _fits(demand: Resources, free: Resources) -> bool:
    return demand.millicpus <= free.millicpus and demand.memory_mib <= free.memory_mib and demand.gpus <= free.gpus


def quantity(text: object) -> Decimal:
    """The value of a quantity of Kubernetes, as `100m`, `64Mi` or `1e3`; 0 for None. Raises RuntimeUnknown."""
    if text is None:
        return Decimal(0)
    number = str(text)
    unit = number.lstrip("+-.0123456789")
    try:
        if unit[:1] in ("e", "E") and len(unit) > 1:
            return Decimal(number)
        return Decimal(number[: len(number) - len(unit)]) * _FACTORS[unit]
    except (ArithmeticError, KeyError) as error:
        raise RuntimeUnknown(f"invalid reply: {number!r} is not a quantity") from error


def _requests(container: Mapping[str, Any]) -> Resources:
    resources = container.get("resources") or {}
    requested = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return Resources(
        millicpus=ceil(quantity(requested.get("cpu")) * 1000),
        memory_mib=ceil(quantity(requested.get("memory")) / MIB),
        gpus=int(quantity(requested.get(GPU))),
    )
