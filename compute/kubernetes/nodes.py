"""The nodes of the cluster: as machines, on which batchq places jobs, and their room when a pod is bound.

The kubelet refuses a pod for which its node has too little CPU or memory. It does not check GPUs, cordons and taints of
the node, so batchq does. The room is checked again before a pod is bound: pods of others may have come meanwhile.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from math import ceil
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from batchq.compute.kubernetes.list_watch import ListWatch
from batchq.compute.kubernetes.pod_names import ENVIRONMENT_LABEL, INSTANCE
from batchq.compute.kubernetes.pod_spec import GPU
from batchq.compute.kubernetes.pod_state import utc_of
from batchq.compute.kubernetes.pods import Pod, decode_pod, uid_of
from batchq.compute.kubernetes.rest import RestClient, decode
from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.ids import ContainerEngineName, MachineName
from batchq.domain.machines import Machine
from batchq.domain.task import total
from batchq.errors import RuntimeUnknown, StartHadNoEffect, StartInterrupted, StartRefused
from batchq.ports.clock import Clock
from batchq.settings import Runtime

NODES = "/api/v1/nodes"
#: The taint by which an administrator states that a machine is off. Kubernetes believes it while the node is not ready.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
#: Ended pods need no room. Pods without a node are none of a node's.
UNFINISHED_ON_A_NODE = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
#: Taints that Kubernetes sets for conditions of a node, which pass.
CONDITIONS = "node.kubernetes.io/"
EFFECTS = frozenset({"NoSchedule", "NoExecute"})
MIB = 2**20
QUANTITIES = 1000  # that are kept parsed: most pods have the same few
_NOTHING = Resources(millicpus=0, memory_mib=0)
_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** (power + 1) for power, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Decimal(1024) ** (power + 1) for power, unit in enumerate("KMGTPE")},
}


class ObjectName(Struct):
    name: str
    uid: str


class NamedObject(Struct):
    metadata: ObjectName


class NodePresence(Struct, frozen=True, kw_only=True):
    """A node of the cluster, whether it takes pods of jobs or not."""

    uid: str
    is_out_of_service: bool


class NodeFacts(Struct, frozen=True, kw_only=True):
    """A node that takes pods of jobs, at least at times."""

    name: str
    labels: Mapping[str, str]
    allocatable: Resources
    #: The number of pods that the node takes.
    max_pods: int
    #: Whether it takes no new pods, by a cordon or a condition.
    is_cordoned: bool
    #: Since when its kubelet does not answer; None: it answers.
    away_since: datetime | None

    def takes(self, demand: Resources, others: Collection["PodDemand"]) -> bool:
        """Whether the node has room for the demand beside those of other pods."""
        return _fits(demand, _without(self.allocatable, others)) and len(others) < self.max_pods

    def machine(self, foreign: Collection["PodDemand"]) -> Machine:
        """The machine that batchq places jobs on, without what pods of others reserve."""
        environment, free = self.labels.get(ENVIRONMENT_LABEL), _without(self.allocatable, foreign)
        return Machine(
            name=MachineName(self.name),
            resources=Resources(
                millicpus=max(0, free.millicpus), memory_mib=max(0, free.memory_mib), gpus=max(0, free.gpus)
            ),
            is_enforced=True,
            max_nodes=max(0, self.max_pods - len(foreign)),
            engine=ContainerEngineName(Runtime.KUBERNETES),
            labels=tuple(sorted(self.labels.items())),
            environment=None if environment is None else EnvironmentName(environment),
            is_cordoned=self.is_cordoned,
            away_since=self.away_since,
        )


class PodDemand(Struct, frozen=True, kw_only=True):
    """What a node reserves for a pod until the pod has ended."""

    uid: str
    node: str
    resources: Resources
    #: Whether this instance did not create the pod.
    is_foreign: bool


class ClusterNodes:
    """The nodes of the cluster and what pods on them reserve.

    Two watches show the nodes and the pods of others. The watch of the instance's own pods reports those.
    """

    def __init__(self, rest: RestClient, instance: str, clock: Clock) -> None:
        #: By name.
        self._nodes: dict[str, NodeFacts] = {}
        #: All nodes of the cluster, by name.
        self._present: dict[str, NodePresence] = {}
        #: By the name of the node and the uid of the pod.
        self._demands: defaultdict[str, dict[str, PodDemand]] = defaultdict(dict)
        #: The name of each pod's node, by the uid of the pod.
        self._places: dict[str, str] = {}
        #: The machines that were made of the nodes, by name, until a node or a pod of others on it changes.
        self._machines: dict[str, Machine] = {}
        self._node_watch = ListWatch(
            rest,
            clock,
            NODES,
            {},
            on_change=self._node_changed,
            on_list=self._nodes_listed,
            on_delete=lambda found: self._node_gone(decode(found, NamedObject).metadata.name),
            may_be_old=True,
        )
        self._pod_watch = ListWatch(
            rest,
            clock,
            "/api/v1/pods",
            {"fieldSelector": UNFINISHED_ON_A_NODE, "labelSelector": f"{INSTANCE}!={instance}"},
            on_change=self._foreign_changed,
            on_list=self._foreign_listed,
            on_delete=lambda found: self.release(decode(found, NamedObject).metadata.uid),
            narrower_path=f"{rest.namespaced}/pods",
            may_be_old=True,
        )

    async def take(self, pod: Pod, name: str) -> str:
        """Reserve room for the pod on this node. Returns the uid of the node.

        Raises StartInterrupted if the node has left; StartHadNoEffect if it has no room; StartRefused if it has another
        platform than the pod requires; RuntimeUnknown.
        """
        await self._ensure_running()
        node = self._nodes.get(name)
        # A binding without a reply has left its own reservation.
        others = [demand for demand in self._demands[name].values() if demand.uid != uid_of(pod)]
        if node is None:
            raise StartInterrupted(f"node {name} is no longer in the cluster")
        selector = pod["spec"].get("nodeSelector") or {}
        wrong = [f"{key}={node.labels.get(key)}" for key, value in selector.items() if node.labels.get(key) != value]
        if wrong:
            raise StartRefused(f"CannotStartContainerError: node {name} has {', '.join(wrong)}")
        demand = PodDemand(uid=uid_of(pod), node=name, resources=demand_of(pod), is_foreign=False)
        if not node.takes(demand.resources, others):
            raise StartHadNoEffect(f"start: node {name} has no room for the pod")
        self._place(demand)
        return self._present[name].uid

    async def may_have_left(self, name: str, uid: str | None) -> bool:
        """Whether the watch shows no node with this name, a node with another uid, or a node that is out of service.

        `uid`: None if it is not known. Raises RuntimeUnknown.
        """
        await self._node_watch.ensure_running()
        node = self._present.get(name)
        return node is None or node.is_out_of_service or uid not in (None, node.uid)

    def does_answer(self, name: str) -> bool:
        """Whether the kubelet of the node answers, as the watch shows it. True if that is not known."""
        node = self._nodes.get(name)
        return node is None or node.away_since is None

    def hold(self, pod: Pod) -> None:
        """A pod of the instance is on a node, and has not ended. An earlier server may have bound the pod."""
        uid = uid_of(pod)
        if self._places.get(uid) != pod["spec"]["nodeName"]:
            self._place(PodDemand(uid=uid, node=pod["spec"]["nodeName"], resources=demand_of(pod), is_foreign=False))

    def release(self, uid: str) -> None:
        """The pod does not need its node any more."""
        name = self._places.pop(uid, None)
        if name is not None and self._demands[name].pop(uid).is_foreign:
            self._machines.pop(name, None)

    async def machines(self) -> tuple[Machine, ...]:
        """The nodes as machines, by name, without those whose taints exclude jobs for ever. Raises RuntimeUnknown."""
        await self._ensure_running()
        return tuple(self._machine(name) for name in sorted(self._nodes))

    async def close(self) -> None:
        await self._node_watch.close()
        await self._pod_watch.close()

    async def _ensure_running(self) -> None:
        await self._node_watch.ensure_running()
        await self._pod_watch.ensure_running()

    def _machine(self, name: str) -> Machine:
        if name not in self._machines:
            foreign = [demand for demand in self._demands[name].values() if demand.is_foreign]
            self._machines[name] = self._nodes[name].machine(foreign)
        return self._machines[name]

    def _node_changed(self, found: Raw) -> str:
        body = decode(found, dict)
        node, name = node_facts(body), body["metadata"]["name"]
        self._present[name] = NodePresence(uid=body["metadata"]["uid"], is_out_of_service=is_out_of_service(body))
        if node is None:
            self._forget_node(name)
        elif node != self._nodes.get(name):
            self._nodes[name] = node
            self._machines.pop(name, None)
        return str(name)

    def _nodes_listed(self, names: frozenset[str]) -> None:
        for name in [name for name in self._present if name not in names]:
            self._node_gone(name)

    def _node_gone(self, name: str) -> None:
        self._present.pop(name, None)
        self._forget_node(name)

    def _forget_node(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._machines.pop(name, None)

    def _foreign_changed(self, found: Raw) -> str:
        pod = decode_pod(found)
        uid = uid_of(pod)
        self._place(PodDemand(uid=uid, node=pod["spec"]["nodeName"], resources=demand_of(pod), is_foreign=True))
        return uid

    def _foreign_listed(self, uids: frozenset[str]) -> None:
        gone = [uid for uid, name in self._places.items() if self._demands[name][uid].is_foreign and uid not in uids]
        for uid in gone:
            self.release(uid)

    def _place(self, demand: PodDemand) -> None:
        if self._places.get(demand.uid, demand.node) != demand.node:
            self.release(demand.uid)
        before = self._demands[demand.node].get(demand.uid)
        self._demands[demand.node][demand.uid] = demand
        self._places[demand.uid] = demand.node
        if demand.is_foreign and demand != before:
            self._machines.pop(demand.node, None)


def node_facts(node: Mapping[str, Any]) -> NodeFacts | None:
    """What matters of a node; None: it has a taint that pods of jobs do not tolerate."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    taints = [str(taint.get("key")) for taint in spec.get("taints") or () if taint.get("effect") in EFFECTS]
    if any(not key.startswith(CONDITIONS) for key in taints):
        return None
    ready = _ready(status)
    allocatable = status.get("allocatable") or {}
    return NodeFacts(
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        allocatable=Resources(
            millicpus=int(quantity(allocatable.get("cpu")) * 1000),
            memory_mib=int(quantity(allocatable.get("memory")) / MIB),
            gpus=int(quantity(allocatable.get(GPU))),
        ),
        max_pods=int(quantity(allocatable.get("pods") or "110")),
        is_cordoned=bool(spec.get("unschedulable")) or bool(taints) or ready.get("status") != "True",
        away_since=utc_of(ready.get("lastTransitionTime")) if ready.get("status") == "Unknown" else None,
    )


def is_out_of_service(node: Mapping[str, Any]) -> bool:
    """Whether an administrator states that the machine is off, and its kubelet does not state the contrary."""
    taints = (node.get("spec") or {}).get("taints") or ()
    is_marked = any(taint.get("key") == OUT_OF_SERVICE for taint in taints)
    return is_marked and _ready(node.get("status") or {}).get("status") != "True"


def _ready(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition that shows whether the kubelet answers; empty: it never did."""
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def demand_of(pod: Pod) -> Resources:
    """What the kubelet reserves for the pod.

    Kubernetes: an init container with the restart policy Always is a sidecar: it runs on beside later containers. The
    member `overhead` is that of the pod's RuntimeClass. Resources of the pod itself replace those of its containers.
    """
    spec, sidecars, largest_init = pod["spec"], _NOTHING, _NOTHING
    for container in spec.get("initContainers") or ():
        with_sidecars = total((sidecars, _requests(container.get("resources"))))
        largest_init = _larger(largest_init, with_sidecars)
        if container.get("restartPolicy") == "Always":
            sidecars = with_sidecars
    running = total(_requests(container.get("resources")) for container in spec.get("containers") or ())
    demand = _larger(total((running, sidecars)), largest_init)
    if own := spec.get("resources"):
        requested = _requests(own)
        demand = replace(
            demand,
            millicpus=requested.millicpus or demand.millicpus,
            memory_mib=requested.memory_mib or demand.memory_mib,
        )
    return total((demand, _requests({"requests": spec.get("overhead")})))


def _larger(one: Resources, other: Resources) -> Resources:
    """The larger of the two in each dimension."""
    return Resources(
        millicpus=max(one.millicpus, other.millicpus),
        memory_mib=max(one.memory_mib, other.memory_mib),
        gpus=max(one.gpus, other.gpus),
    )


def _without(resources: Resources, demands: Iterable[PodDemand]) -> Resources:
    used = total(demand.resources for demand in demands)
    return Resources(
        millicpus=resources.millicpus - used.millicpus,
        memory_mib=resources.memory_mib - used.memory_mib,
        gpus=resources.gpus - used.gpus,
    )


def _fits(demand: Resources, free: Resources) -> bool:
    return demand.millicpus <= free.millicpus and demand.memory_mib <= free.memory_mib and demand.gpus <= free.gpus


def quantity(text: object) -> Decimal:
    """The value of a quantity of Kubernetes, as `100m`, `64Mi` or `1e3`; 0 for None. Raises RuntimeUnknown."""
    return Decimal(0) if text is None else _parsed(str(text))


@lru_cache(QUANTITIES)
def _parsed(number: str) -> Decimal:
    unit = number.lstrip("+-.0123456789")
    try:
        if unit[:1] in ("e", "E") and len(unit) > 1:
            return Decimal(number)
        return Decimal(number[: len(number) - len(unit)]) * _FACTORS[unit]
    except (ArithmeticError, KeyError) as error:
        raise RuntimeUnknown(f"invalid reply: {number!r} is not a quantity") from error


def _requests(resources: Mapping[str, Any] | None) -> Resources:
    """What the member `resources` of a container or a pod reserves. None: nothing."""
    named = resources or {}
    requested = (named.get("limits") or {}) | (named.get("requests") or {})
    return Resources(
        millicpus=ceil(quantity(requested.get("cpu")) * 1000),
        memory_mib=ceil(quantity(requested.get("memory")) / MIB),
        gpus=int(quantity(requested.get(GPU))),
    )
