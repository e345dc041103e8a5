"""nodeProperties: their shapes, and the domain's gang: the nodes, and what each of them runs."""

import re
from collections.abc import Sequence
from typing import Annotated

from batchq.api.batch import tasks, validation
from batchq.api.batch.consumable_resources import ConsumableResourceProperties
from batchq.api.batch.containers import ContainerOverrides, ContainerProperties, to_single_container
from batchq.api.batch.tasks import EcsProperties, EcsPropertiesOverride
from batchq.api.batch.wire import Integer, OmittedIfEmpty, Text, Unsupported, WireModel
from batchq.domain.task import NodeRange, Nodes, Task, TaskContainer
from batchq.errors import Invalid

MAX_NODES = 1000
MAX_RANGES = 5
_RANGE = re.compile(r"([0-9]{0,4}):([0-9]{0,4})")
Span = tuple[int, int]


class NodeRangeProperty(WireModel):
    targetNodes: Text
    container: Annotated[ContainerProperties | None, OmittedIfEmpty] = None
    instanceTypes: list[Text] | None = None
    ecsProperties: Annotated[EcsProperties | None, OmittedIfEmpty] = None
    eksProperties: Unsupported | None = None
    consumableResourceProperties: ConsumableResourceProperties | None = None


class NodeProperties(WireModel):
    numNodes: Integer
    mainNode: Integer
    nodeRangeProperties: list[NodeRangeProperty]


class NodePropertyOverride(WireModel):
    targetNodes: Text
    containerOverrides: ContainerOverrides | None = None
    ecsPropertiesOverride: EcsPropertiesOverride | None = None
    instanceTypes: list[Text] | None = None
    eksPropertiesOverride: Unsupported | None = None
    consumableResourcePropertiesOverride: ConsumableResourceProperties | None = None


class NodeOverrides(WireModel):
    numNodes: Integer | None = None
    nodePropertyOverrides: list[NodePropertyOverride] | None = None


def to_gang(given: NodeProperties) -> Nodes:
    """The gang of a job definition. Raises Invalid."""
    made = _to_nodes(given, given.numNodes)
    for it in given.nodeRangeProperties:
        if (node_bounds(it.targetNodes)[1] or 0) >= made.count:
            raise Invalid(f"targetNodes {it.targetNodes} must be within 0:{made.count - 1}.")
    return made


def resize_gang(given: NodeProperties, count: int) -> Nodes:
    """The gang with another number of nodes. Raises Invalid.

    AWS: one range must be open-ended, and all ranges must begin below the number.
    """
    if not any(is_open_ended(it.targetNodes) for it in given.nodeRangeProperties):
        raise Invalid("numNodes can be overridden only where a targetNodes range of the job definition is open-ended.")
    return _to_nodes(given, count)


def node_span(text: str, count: int) -> Span:
    """The first and last node of `a:b`, `:b`, `a:` or `:` in a gang of `count` nodes. Raises Invalid."""
    first, last = node_bounds(text)
    last = count - 1 if last is None else min(last, count - 1)
    if first > last:
        raise Invalid(f"targetNodes {text} is beyond the {count} nodes.")
    return first, last


def node_bounds(text: str) -> tuple[int, int | None]:
    """The first node and the last one, None if open-ended, of a range in targetNodes. Raises Invalid."""
    parts = _RANGE.fullmatch(text)
    if parts is None:
        raise Invalid("targetNodes must be a range of nodes, such as 0:3, :3 or 4:.")
    first, last = int(parts[1] or 0), int(parts[2]) if parts[2] else None
    if last is not None and last < first:
        raise Invalid(f"targetNodes {text} ends before it begins.")
    return first, last


def is_open_ended(text: str) -> bool:
    return text.endswith(":")


def _to_nodes(given: NodeProperties, count: int) -> Nodes:
    if not 1 <= count <= MAX_NODES:
        raise Invalid(f"numNodes must be between 1 and {MAX_NODES}.")
    if not 0 <= given.mainNode < count:
        raise Invalid(f"mainNode must be from 0 to {count - 1}.")
    if not 1 <= len(given.nodeRangeProperties) <= MAX_RANGES:
        raise Invalid(f"nodeRangeProperties must have 1 to {MAX_RANGES} ranges.")
    spans = [node_span(it.targetNodes, count) for it in given.nodeRangeProperties]
    _check_spans(spans, count)
    ranges = tuple(
        NodeRange(first=first, last=last, task=_task(it))
        for (first, last), it in zip(spans, given.nodeRangeProperties, strict=True)
    )
    return Nodes(count=count, main=given.mainNode, ranges=ranges)


def _check_spans(spans: Sequence[Span], count: int) -> None:
    """AWS: every node has a range; a range within another one takes precedence."""
    validation.unique(spans, "A range of targetNodes")
    held = {node for first, last in spans for node in range(first, last + 1)}
    missing = set(range(count)) - held
    if missing:
        raise Invalid(f"Node {min(missing)} has no range: targetNodes must include every node from 0 to {count - 1}.")


def _task(given: NodeRangeProperty) -> Task:
    """The task of the nodes of a range. One container becomes a task with one container, named `default`."""
    validation.refuse_unsupported({"eksProperties": given.eksProperties}, validation.KUBERNETES)
    if (given.container is None) == (given.ecsProperties is None):
        raise Invalid("A node range must have exactly one of container and ecsProperties.")
    if given.ecsProperties is not None:
        return tasks.to_task(given.ecsProperties, on_fargate=False)
    assert given.container is not None
    return Task(
        containers=(TaskContainer(name="default", spec=to_single_container(given.container, on_fargate=False)),)
    )
