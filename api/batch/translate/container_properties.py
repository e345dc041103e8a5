"""Containers in DescribeJobs: the registered properties, with the overrides of SubmitJob applied."""

from collections.abc import Mapping
from typing import Any

from batchq.api.batch.translate.job_definitions import filled
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.job import JobSpec
from batchq.domain.task import Nodes, Task

Content = dict[str, Any]
Registered = Mapping[str, Any]

WHOLE_VCPU = 1000  # thousandths of a vCPU

_OLDER = {"VCPU": "vcpus", "MEMORY": "memory"}


def registered(document: Registered, spec: JobSpec, node: int | None) -> Registered:
    """The definition's properties for a job, or for one of its nodes.

    They are in the member containerProperties, ecsProperties or nodeProperties. A `document` without any of them stands
    for a definition that is not stored any more.
    """
    said = document if document.keys() & {"containerProperties", "ecsProperties", "nodeProperties"} else _lost(spec)
    if node is None or spec.nodes is None:
        return said
    place = spec.nodes.ranges.index(spec.nodes.range_of(node))
    of_node = said["nodeProperties"]["nodeRangeProperties"][place]
    if "ecsProperties" in of_node:
        return {"ecsProperties": of_node["ecsProperties"]}
    return {"containerProperties": of_node["container"]}


def _lost(spec: JobSpec) -> Registered:
    """Properties for a job whose definition is not stored any more: the images only."""
    if spec.nodes is not None:
        ranges = [{"targetNodes": f"{it.first}:{it.last}", **_images(it.task)} for it in spec.nodes.ranges]
        return {"nodeProperties": {"mainNode": spec.nodes.main, "nodeRangeProperties": ranges}}
    return {"containerProperties": {"image": spec.container.image}} if spec.task is None else _images(spec.task)


def _images(task: Task) -> Content:
    containers = [{"name": it.name, "image": it.spec.image} for it in task.containers]
    return {"ecsProperties": {"taskProperties": [{"containers": containers}]}}


def container(said: Registered, spec: ContainerSpec) -> Content:
    if spec.resources.millicpus % WHOLE_VCPU:
        said = {member: value for member, value in said.items() if member != "vcpus"}  # AWS: `vcpus` is an integer
    return filled(said) | _effective(said, spec)


def containers(said: Registered, task: Task) -> list[Content]:
    """The containers of an ecsProperties, in its order."""
    listed = said["taskProperties"][0]["containers"]
    return [{**it, **_effective(it, made.spec)} for it, made in zip(listed, task.containers, strict=True)]


def of_nodes(said: Registered, nodes: Nodes) -> Content:
    """A nodeProperties, with the number of nodes and the containers of a job."""
    ranges = [
        {**it, **_of_range(it, made.task)} for it, made in zip(said["nodeRangeProperties"], nodes.ranges, strict=True)
    ]
    return {**said, "numNodes": nodes.count, "nodeRangeProperties": ranges}


def _of_range(said: Registered, task: Task) -> Content:
    if "container" in said:
        return {"container": container(said["container"], task.leading.spec)}
    ecs = said["ecsProperties"]
    return {"ecsProperties": {"taskProperties": [{**ecs["taskProperties"][0], "containers": containers(ecs, task)}]}}


def _effective(said: Registered, spec: ContainerSpec) -> Content:
    return {
        "command": list(spec.command),
        "environment": [{"name": name, "value": value} for name, value in spec.environment],
        **_resources(said, spec),
    }


def _resources(said: Registered, spec: ContainerSpec) -> Content:
    """The effective resources, each in the form that the definition uses: as an entry, or as an older member."""
    older = {member: value for member, value in _numbers(spec.resources).items() if member in said}
    entries = {it["type"]: it for it in said.get("resourceRequirements", ())}
    wanted = _entries(spec.resources)
    kept = {kind: wanted[kind] for kind in entries if kind in wanted}
    new = {kind: text for kind, text in wanted.items() if kind not in kept and _OLDER.get(kind) not in older}
    return {**older, "resourceRequirements": [{"type": kind, "value": text} for kind, text in (kept | new).items()]}


def _numbers(resources: Resources) -> dict[str, int]:
    return {"vcpus": resources.millicpus // WHOLE_VCPU, "memory": resources.memory_mib}


def _entries(resources: Resources) -> dict[str, str]:
    entries = {"VCPU": vcpus(resources.millicpus), "MEMORY": str(resources.memory_mib)}
    return entries | ({"GPU": str(resources.gpus)} if resources.gpus else {})


def vcpus(millicpus: int) -> str:
    """In AWS's format: `2`, `0.25`."""
    whole, rest = divmod(millicpus, WHOLE_VCPU)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
