"""Ranges of the nodes of a multi-node job, as AWS's targetNodes names them: `0:3`, `:3`, `4:` or `:`. Pure."""

import re
from collections.abc import Iterable, Sequence

from batchq.domain.catalog import MAX_UNITS, require_unique
from batchq.domain.ids import ConsumableName
from batchq.domain.job import ConsumableRequirement
from batchq.domain.task import DefinitionForm, NodeRange, Nodes, Task
from batchq.errors import Invalid

MAX_NODES = 1000
MAX_RANGES = 5
_RANGE = re.compile(r"([0-9]{0,4}):([0-9]{0,4})")
#: The first and the last node.
Span = tuple[int, int]
Needs = tuple[ConsumableRequirement, ...]


def make_nodes(ranges: Sequence[tuple[str, Task]], *, count: int, main: int) -> Nodes:
    """The nodes of a job from the targetNodes and the task of each range. Raises Invalid."""
    if not 1 <= count <= MAX_NODES:
        raise Invalid(f"numNodes must be between 1 and {MAX_NODES}.")
    if not 0 <= main < count:
        raise Invalid(f"mainNode must be from 0 to {count - 1}.")
    if not 1 <= len(ranges) <= MAX_RANGES:
        raise Invalid(f"nodeRangeProperties must have 1 to {MAX_RANGES} ranges.")
    spans = [node_span(target, count) for target, _ in ranges]
    _check_spans(spans, count)
    made = tuple(
        NodeRange(first=first, last=last, task=task) for (first, last), (_, task) in zip(spans, ranges, strict=True)
    )
    return Nodes(count=count, main=main, ranges=made, form=DefinitionForm.NODES)


def resized(nodes: Nodes, targets: Sequence[str], count: int) -> Nodes:
    """The nodes with another number of them. `targets`: the targetNodes of each range. Raises Invalid.

    AWS: one range must be open-ended, and all ranges must begin below the number.
    """
    if not any(target.endswith(":") for target in targets):
        raise Invalid("numNodes can be overridden only where a targetNodes range of the job definition is open-ended.")
    tasks = (node_range.task for node_range in nodes.ranges)
    return make_nodes(list(zip(targets, tasks, strict=True)), count=count, main=nodes.main)


def node_span(target: str, count: int) -> Span:
    """The first and last node of a range in a job of `count` nodes. Raises Invalid."""
    first, last = node_bounds(target)
    last = count - 1 if last is None else min(last, count - 1)
    if first > last:
        raise Invalid(f"targetNodes {target} is beyond the {count} nodes.")
    return first, last


def node_bounds(target: str) -> tuple[int, int | None]:
    """The first node and the last one, None if open-ended, of a range. Raises Invalid."""
    parts = _RANGE.fullmatch(target)
    if parts is None:
        raise Invalid("targetNodes must be a range of nodes, such as 0:3, :3 or 4:.")
    first, last = int(parts[1] or 0), int(parts[2]) if parts[2] else None
    if last is not None and last < first:
        raise Invalid(f"targetNodes {target} ends before it begins.")
    return first, last


def needs_of_nodes(own: Needs, ranges: Sequence[Needs], nodes: Nodes) -> Needs:
    """The total that the job requires: its own needs, and for each node those of its range.

    `ranges` are in the order of `nodes.ranges`. Raises Invalid for a total above MAX_UNITS.
    """
    by_span = {
        (node_range.first, node_range.last): needs for node_range, needs in zip(nodes.ranges, ranges, strict=True)
    }
    of_nodes = (nodes.range_of(node) for node in range(nodes.count))
    total = _total([own, *(by_span[node_range.first, node_range.last] for node_range in of_nodes)])
    if any(requirement.quantity > MAX_UNITS for requirement in total):
        raise Invalid(f"All nodes together must not need more than {MAX_UNITS} of a consumable resource.")
    return total


def _check_spans(spans: Sequence[Span], count: int) -> None:
    """AWS: every node has a range; a range within another one takes precedence."""
    require_unique(spans, "A range of targetNodes")
    covered = {node for first, last in spans for node in range(first, last + 1)}
    missing = set(range(count)) - covered
    if missing:
        raise Invalid(f"Node {min(missing)} has no range: targetNodes must include every node from 0 to {count - 1}.")


def _total(listed: Iterable[Needs]) -> Needs:
    amounts: dict[ConsumableName, int] = {}
    for needs in listed:
        for need in needs:
            amounts[need.resource] = amounts.get(need.resource, 0) + need.quantity
    return tuple(ConsumableRequirement(resource=name, quantity=quantity) for name, quantity in amounts.items())
