"""The room on the nodes, and the choice of a node for a pod.

The kubelet refuses a pod for which its node has too little CPU or memory. It does not check GPUs, cordons and taints of
the node, so batchq does.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from math import ceil
from typing import Any

from msgspec import Struct

from batchq.compute.kubernetes.pod_spec import ENVIRONMENT_LABEL, GPU, INSTANCE
from batchq.compute.kubernetes.pods import Pod, is_bound, uid_of
from batchq.compute.kubernetes.rest import RestClient
from batchq.domain.container import Resources
from batchq.domain.machines import Machine, one_machine
from batchq.errors import RuntimeUnknown
from batchq.ports.clock import Clock

MAX_AGE = timedelta(seconds=10)  # of the knowledge about nodes and their pods
EFFECTS = frozenset({"NoSchedule", "NoExecute"})
MIB = 2**20
NOTHING = Resources(millicpus=0, memory_mib=0)
_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** (power + 1) for power, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Decimal(1024) ** (power + 1) for power, unit in enumerate("KMGTPE")},
}


class NodeRoom(Struct, kw_only=True):
    """A node that can take pods."""

    name: str
    labels: Mapping[str, str]
    allocatable: Resources
    #: The number of pods that the node takes.
    max_pods: int
    #: The demands of the pods on the node that have not ended, by uid.
    demands: dict[str, Resources]

    @property
    def free(self) -> Resources:
        used = sum_of(self.demands.values())
        return Resources(
            millicpus=self.allocatable.millicpus - used.millicpus,
            memory_mib=self.allocatable.memory_mib - used.memory_mib,
            gpus=self.allocatable.gpus - used.gpus,
        )

    def takes(self, demand: Resources) -> bool:
        return _fits(demand, self.free) and len(self.demands) < self.max_pods

    def serves(self, environment: str, selector: Mapping[str, str]) -> bool:
        """Whether jobs of the environment may run here: a node with the label runs those of that environment only."""
        label = self.labels.get(ENVIRONMENT_LABEL, environment)
        return label == environment and all(self.labels.get(name) == value for name, value in selector.items())


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
        #: The demands of pods that batchq did not create.
        self._foreign = NOTHING

    async def choose(self, pod: Pod, environment: str) -> str | None:
        """The node with room for the pod that has the least left then; None: no node has room."""
        await self._refresh()
        demand, selector = demand_of(pod), pod["spec"].get("nodeSelector") or {}
        usable = [room for room in self._nodes.values() if room.serves(environment, selector) and room.takes(demand)]
        if not usable:
            return None
        best = min(usable, key=lambda room: (room.free.gpus, room.free.memory_mib, room.free.millicpus, room.name))
        best.demands[uid_of(pod)] = demand
        self._placed[uid_of(pod)] = best.name, demand
        return best.name

    def release(self, uid: str) -> None:
        """The pod does not need its node any more."""
        self._placed.pop(uid, None)
        for node in self._nodes.values():
            node.demands.pop(uid, None)

    def read_again(self) -> None:
        """Read the nodes again before the next choice: a node has refused a pod."""
        self._read_at = None

    async def capacity(self) -> tuple[Machine, ...]:
        """What batchq's pods may use of all usable nodes together, as one machine."""
        self.read_again()
        await self._refresh()
        everything = sum_of(room.allocatable for room in self._nodes.values())
        return one_machine(
            Resources(
                millicpus=max(0, everything.millicpus - self._foreign.millicpus),
                memory_mib=max(0, everything.memory_mib - self._foreign.memory_mib),
                gpus=max(0, everything.gpus - self._foreign.gpus),
            )
        )

    async def _refresh(self) -> None:
        now = self._clock.now()
        if self._read_at is not None and now - self._read_at < MAX_AGE:
            return
        reply = await self._rest.get("/api/v1/nodes")
        items = reply.body.get("items")
        if not isinstance(items, list):
            raise RuntimeUnknown(f"list nodes: {reply.message}")
        nodes = {room.name: room for room in map(node_room, items) if room is not None}
        seen, foreign = set(), []
        for pod in await self._pods():
            seen.add(uid_of(pod))
            if not is_bound(pod) or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            name = pod["spec"]["nodeName"]
            if name in nodes:
                nodes[name].demands[uid_of(pod)] = demand_of(pod)
                if (pod["metadata"].get("labels") or {}).get(INSTANCE) != self._instance:
                    foreign.append(demand_of(pod))
        self._placed = {uid: value for uid, value in self._placed.items() if uid not in seen}
        for uid, (name, demand) in self._placed.items():
            if name in nodes:
                nodes[name].demands[uid] = demand
        self._nodes, self._read_at, self._foreign = nodes, now, sum_of(foreign)

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
    """The room of a node; None: it is not ready, cordoned, or has a taint that pods of jobs do not tolerate."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    is_tainted = any(taint.get("effect") in EFFECTS for taint in spec.get("taints") or ())
    if not ready or spec.get("unschedulable") or is_tainted:
        return None
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
    )


def demand_of(pod: Pod) -> Resources:
    """What the kubelet reserves for the pod."""
    spec = pod["spec"]
    running = sum_of(map(_requests, spec.get("containers") or ()))
    largest = [_requests(container) for container in spec.get("initContainers") or ()]
    return Resources(
        millicpus=max([running.millicpus, *(resources.millicpus for resources in largest)]),
        memory_mib=max([running.memory_mib, *(resources.memory_mib for resources in largest)]),
        gpus=max([running.gpus, *(resources.gpus for resources in largest)]),
    )


def sum_of(demands: Iterable[Resources]) -> Resources:
    """The sum of resources."""
    millicpus = memory_mib = gpus = 0
    for resources in demands:
        millicpus, memory_mib, gpus = (
            millicpus + resources.millicpus,
            memory_mib + resources.memory_mib,
            gpus + resources.gpus,
        )
    return Resources(millicpus=millicpus, memory_mib=memory_mib, gpus=gpus)


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
