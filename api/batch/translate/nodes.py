"""nodeProperties to the domain's gang: the nodes, and what each of them runs."""

import re
from collections.abc import Sequence

from batchq.api.batch.translate import tasks, unsupported, validation
from batchq.api.batch.translate.containers import alone
from batchq.api.batch.wire.nodes import NodeProperties, NodeRangeProperty
from batchq.domain.task import NodeRange, Nodes, Task, TaskContainer
from batchq.errors import Invalid

MOST_NODES = 1000
MOST_RANGES = 5

_RANGE = re.compile(r"([0-9]{0,4}):([0-9]{0,4})")

Span = tuple[int, int]


def gang(given: NodeProperties) -> Nodes:
    """The gang of a job definition. Raises Invalid."""
    made = _gang(given, given.numNodes)
    for it in given.nodeRangeProperties:
        if (bounds(it.targetNodes)[1] or 0) >= made.count:
            raise Invalid(f"targetNodes {it.targetNodes} must be within 0:{made.count - 1}.")
    return made


def resized(given: NodeProperties, count: int) -> Nodes:
    """The gang with another number of nodes. Raises Invalid.

    AWS: one range must be open-ended, and all ranges must begin below the number.
    """
    if not any(is_open(it.targetNodes) for it in given.nodeRangeProperties):
        raise Invalid("numNodes can be overridden only where a targetNodes range of the job definition is open-ended.")
    return _gang(given, count)


def span(text: str, count: int) -> Span:
    """The first and last node of `a:b`, `:b`, `a:` or `:` in a gang of `count` nodes. Raises Invalid."""
    first, last = bounds(text)
    last = count - 1 if last is None else min(last, count - 1)
    if first > last:
        raise Invalid(f"targetNodes {text} has no nodes: there are {count}.")
    return first, last


def bounds(text: str) -> tuple[int, int | None]:
    """The first node and the last one, None if open-ended, of a range in targetNodes. Raises Invalid."""
    parts = _RANGE.fullmatch(text)
    if parts is None:
        raise Invalid("targetNodes must be a range of nodes, as 0:3, :3 or 4:.")
    first, last = int(parts[1] or 0), int(parts[2]) if parts[2] else None
    if last is not None and last < first:
        raise Invalid(f"targetNodes {text} ends before it begins.")
    return first, last


def is_open(text: str) -> bool:
    return text.endswith(":")


def _gang(given: NodeProperties, count: int) -> Nodes:
    if not 1 <= count <= MOST_NODES:
        raise Invalid(f"numNodes must be between 1 and {MOST_NODES}.")
    if not 0 <= given.mainNode < count:
        raise Invalid(f"mainNode must be from 0 to {count - 1}.")
    if not 1 <= len(given.nodeRangeProperties) <= MOST_RANGES:
        raise Invalid(f"nodeRangeProperties must have 1 to {MOST_RANGES} ranges.")
    spans = [span(it.targetNodes, count) for it in given.nodeRangeProperties]
    _check_spans(spans, count)
    ranges = tuple(
        NodeRange(first=first, last=last, task=_task(it))
        for (first, last), it in zip(spans, given.nodeRangeProperties, strict=True)
    )
    return Nodes(count=count, main=given.mainNode, ranges=ranges)


def _check_spans(spans: Sequence[Span], count: int) -> None:
    """AWS: every node has a range; a range within another one takes precedence."""
    validation.once(spans, "A range of targetNodes")
    held = {node for first, last in spans for node in range(first, last + 1)}
    missing = set(range(count)) - held
    if missing:
        raise Invalid(f"Node {min(missing)} has no range: targetNodes must hold every node from 0 to {count - 1}.")


def _task(given: NodeRangeProperty) -> Task:
    """The task of the nodes of a range. One container becomes a task with one container, named `default`."""
    unsupported.refuse({"eksProperties": given.eksProperties}, unsupported.KUBERNETES)
    if (given.container is None) == (given.ecsProperties is None):
        raise Invalid("A node range must have exactly one of container and ecsProperties.")
    if given.ecsProperties is not None:
        return tasks.task(given.ecsProperties, on_fargate=False)
    assert given.container is not None
    return Task(containers=(TaskContainer(name="default", spec=alone(given.container, on_fargate=False)),))
