"""What SubmitJob changes of what a job definition runs, weighed against that very revision."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from api.batch.arns import Arns
from api.batch.translate import checks, nodes, overrides, resources, unserved
from api.batch.translate.definitions import document
from api.batch.translate.needs import Needs, needs, of_gang
from api.batch.wire.jobs import SubmitJob
from api.batch.wire.needs import ConsumableResourceProperties
from api.batch.wire.nodes import NodeOverrides, NodeProperties, NodePropertyOverride, NodeRangeProperty
from batchq.domain.catalog import JobDefinition
from batchq.domain.container import Overrides, length, reserved
from batchq.domain.task import ByName, NodeRange, Nodes, Task, effective_nodes, effective_task, together
from batchq.errors import Invalid


class Changes(Struct, frozen=True, kw_only=True):
    """As a Submission has them."""

    overrides: Overrides
    task: Task | None = None
    nodes: Nodes | None = None
    needs: Needs | None = None


def changes(given: SubmitJob, definition: JobDefinition, arns: Arns) -> Changes:
    unserved.refuse({"eksPropertiesOverride": given.eksPropertiesOverride}, unserved.KUBERNETES)
    if definition.nodes is not None:
        _only(given, "nodeOverrides", "nodeProperties")
        return _gang(given, definition.nodes, document(definition.document), arns)
    if definition.task is not None:
        _only(given, "ecsPropertiesOverride", "ecsProperties")
        return _task(given, definition.task, document(definition.document), arns)
    _only(given, "containerOverrides", "containerProperties")
    return _container(given, definition, arns)


def _only(given: SubmitJob, member: str, kind: str) -> None:
    """A job is overridden in the way it was defined."""
    for other in ("containerOverrides", "ecsPropertiesOverride", "nodeOverrides"):
        if other != member and _says(getattr(given, other)):
            raise Invalid(f"{other} cannot be specified for a job definition that has {kind}: use {member}.")


def _says(given: BaseModel | None) -> bool:
    return given is not None and any(vars(given).values())


def _container(given: SubmitJob, definition: JobDefinition, arns: Arns) -> Changes:
    """What was checked when it was registered is not checked again for each job."""
    if not _says(given.containerOverrides):
        return Changes(overrides=Overrides(), needs=_needs(given, arns))
    registered = document(definition.document)
    wanted = overrides.of_container(given.containerOverrides, registered.get("containerProperties", {}))
    resources.check(reserved(definition.container.resources, wanted), fargate=_fargate(registered))
    return Changes(overrides=wanted, needs=_needs(given, arns))


def _task(given: SubmitJob, task: Task, registered: Mapping[str, Any], arns: Arns) -> Changes:
    by_name = overrides.of_task(given.ecsPropertiesOverride, task)
    wanted = _checked(effective_task(task, by_name, ()), fargate=_fargate(registered))
    return Changes(overrides=together(by_name.values()), task=wanted, needs=_needs(given, arns))


def _needs(given: SubmitJob, arns: Arns) -> Needs | None:
    """None where the definition's hold."""
    return needs(given.consumableResourcePropertiesOverride, arns) or None


def _checked(task: Task, *, fargate: bool) -> Task:
    for it in task.containers:
        resources.check_memory(it.spec.resources)
    resources.check(task.resources, fargate=fargate)
    return task


def _fargate(registered: Mapping[str, Any]) -> bool:
    return "FARGATE" in registered.get("platformCapabilities", ())


def _gang(given: SubmitJob, defined: Nodes, registered: Mapping[str, Any], arns: Arns) -> Changes:
    if given.nodeOverrides is None and given.consumableResourcePropertiesOverride is None:
        return Changes(overrides=Overrides())
    asked = given.nodeOverrides or NodeOverrides()
    properties = NodeProperties.model_validate(registered["nodeProperties"])
    same = asked.numNodes is None or asked.numNodes == defined.count
    gang = defined if same else nodes.resized(properties, asked.numNodes or 0)
    targets = _targets(asked, properties, gang)
    by_range = {
        (it.first, it.last): _of_range(targets[place], it, properties.nodeRangeProperties[place])
        for place, it in enumerate(gang.ranges)
        if place in targets
    }
    wanted = effective_nodes(gang, by_range, ())
    for it in wanted.ranges:
        _checked(it.task, fargate=False)
    longest = max((together(it.values()) for it in by_range.values()), key=length, default=Overrides())
    own = needs(_instead(given.consumableResourcePropertiesOverride, _registered_needs(registered)), arns)
    needed = of_gang(own, _each_needs(properties, targets), wanted, arns)
    return Changes(overrides=longest, nodes=wanted, needs=needed)


def _targets(asked: NodeOverrides, properties: NodeProperties, gang: Nodes) -> dict[int, NodePropertyOverride]:
    """The overrides by the place of the range that they mean. AWS: each must mean one of the definition's."""
    places = {it.targetNodes: place for place, it in enumerate(properties.nodeRangeProperties)}
    places |= {f"{it.first}:{it.last}": place for place, it in enumerate(gang.ranges)}
    listed = asked.nodePropertyOverrides or []
    found = [places.get(it.targetNodes, places.get(_plain(it.targetNodes, gang.count))) for it in listed]
    strange = [it.targetNodes for it, place in zip(listed, found, strict=True) if place is None]
    if strange:
        text = "NodeOverride targets should match job definition. Non matching targets - "
        raise Invalid(text + ", ".join(strange))
    checks.once(found, "A range of nodePropertyOverrides")
    return {place: it for place, it in zip(found, listed, strict=True) if place is not None}


def _plain(text: str, count: int) -> str:
    first, last = nodes.bounds(text)
    return f"{first}:{count - 1 if last is None else last}"


def _of_range(given: NodePropertyOverride, range_: NodeRange, registered: NodeRangeProperty) -> ByName:
    unserved.refuse({"eksPropertiesOverride": given.eksPropertiesOverride}, unserved.KUBERNETES)
    if registered.container is None:
        if _says(given.containerOverrides):
            raise Invalid(f"containerOverrides cannot be specified for the nodes {given.targetNodes}.")
        return overrides.of_task(given.ecsPropertiesOverride, range_.task)
    if _says(given.ecsPropertiesOverride):
        raise Invalid(f"ecsPropertiesOverride cannot be specified for the nodes {given.targetNodes}.")
    container = registered.container.model_dump(exclude_none=True)
    return {range_.task.leading.name: overrides.of_container(given.containerOverrides, container)}


def _registered_needs(registered: Mapping[str, Any]) -> ConsumableResourceProperties:
    return ConsumableResourceProperties.model_validate(registered.get("consumableResourceProperties", {}))


def _each_needs(
    properties: NodeProperties, targets: Mapping[int, NodePropertyOverride]
) -> list[ConsumableResourceProperties | None]:
    over = {place: it.consumableResourcePropertiesOverride for place, it in targets.items()}
    registered = [it.consumableResourceProperties for it in properties.nodeRangeProperties]
    return [_instead(over.get(place), it) for place, it in enumerate(registered)]


def _instead(
    given: ConsumableResourceProperties | None, registered: ConsumableResourceProperties | None
) -> ConsumableResourceProperties | None:
    """AWS: what SubmitJob says takes the place of what was registered. An empty list is as good as none."""
    return given if given is not None and given.consumableResourceList else registered
