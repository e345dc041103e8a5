"""SubmitJob's overrides applied to a job definition, and the limits on the resources of containers. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.catalog import JobDefinition, RangeTerms, require_unique
from batchq.domain.container import Overrides, Resources, creates_host_paths, creating_host_paths, length
from batchq.domain.job_request import JobRequest, MultiNodeOverrides, NamedOverrides, RangeOverrides
from batchq.domain.node_ranges import Needs, needs_of_nodes, node_bounds, resized
from batchq.domain.task import ByName, DefinitionForm, NodeRange, Nodes, Parameters, Task, effective_nodes, together
from batchq.errors import Invalid

MIN_MEMORY = 4  # MiB: container engines accept no less
# AWS: for each number of vCPUs (in thousandths) the memory sizes (in MiB) that Fargate offers with it.
FARGATE_SIZES: Mapping[int, Sequence[int]] = {
    250: (512, 1024, 2048),
    500: range(1024, 4096 + 1, 1024),
    1000: range(2048, 8192 + 1, 1024),
    2000: range(4096, 16384 + 1, 1024),
    4000: range(8192, 30720 + 1, 1024),
    8000: range(16384, 61440 + 1, 4096),
    16000: range(32768, 122880 + 1, 8192),
    32000: (61440, 122880, 249856),
}


class MergedWork(Struct, frozen=True, kw_only=True):
    """What a job runs: the containers of its definition with the overrides of its request."""

    #: As in `JobSpec`.
    nodes: Nodes
    #: As in `JobSpec`.
    needs: Needs
    #: The overrides whose length is limited: those of the only container, of all containers of the task together, or of
    #: all containers of the node range with the longest ones.
    overrides: Overrides = Overrides()


def merge(request: JobRequest, definition: JobDefinition, parameters: Parameters) -> MergedWork:
    """The definition with the overrides of the request, and with mounts that create host paths if its tags say so.

    `parameters`: names and values for `Ref::name`. Raises Invalid.
    """
    work = _merge(request, definition, parameters)
    if not request.tags or not creates_host_paths(request.tags):
        return work
    return replace(work, nodes=work.nodes.with_specs(lambda _, container: creating_host_paths(container.spec)))


def _merge(request: JobRequest, definition: JobDefinition, parameters: Parameters) -> MergedWork:
    needs, nodes = definition.needs if request.needs is None else request.needs, definition.nodes
    if request.inline is not None:
        return MergedWork(nodes=request.inline, needs=needs)
    if nodes.form is DefinitionForm.CONTAINER and not parameters and not _has_overrides(request):
        return MergedWork(nodes=nodes, needs=needs)  # all jobs of the definition share one value
    if nodes.form is DefinitionForm.NODES:
        _refuse_other_overrides(request, "nodeOverrides", "nodeProperties")
        return _merge_nodes(request, definition, parameters)
    by_name, limited = _of_one_node(request, definition)
    merged = effective_nodes(nodes, {(0, 0): by_name}, parameters)
    if nodes.form is DefinitionForm.TASK or request.overrides is not None:  # the definition itself was checked before
        _check_tasks(merged, fargate=definition.terms.fargate)
    return MergedWork(nodes=merged, needs=needs, overrides=limited)


def _has_overrides(request: JobRequest) -> bool:
    """Whether the request has one of the members for overrides of containers, even an empty one."""
    return (request.overrides, request.task_overrides, request.node_overrides) != (None, None, None)


def _of_one_node(request: JobRequest, definition: JobDefinition) -> tuple[ByName, Overrides]:
    """The overrides of a job on one node by the names of its containers, and those whose length is limited."""
    if definition.nodes.form is DefinitionForm.TASK:
        _refuse_other_overrides(request, "ecsPropertiesOverride", "ecsProperties")
        by_name = _by_name(request.task_overrides or (), definition.nodes.task(0))
        return by_name, together(by_name.values())
    _refuse_other_overrides(request, "containerOverrides", "containerProperties")
    registered = definition.terms.older_members
    own = _without_ignored(request.overrides or Overrides(), request.older_members, registered)
    return {definition.nodes.leading.name: own}, own


def _refuse_other_overrides(request: JobRequest, member: str, kind: str) -> None:
    """Raise Invalid for overrides of another kind than the definition's, which is `member`."""
    nodes = request.node_overrides
    for other, is_set in (
        ("containerOverrides", request.overrides is not None),
        ("ecsPropertiesOverride", request.task_overrides is not None),
        ("nodeOverrides", nodes is not None and bool(nodes.count or nodes.ranges)),
    ):
        if is_set and other != member:
            raise Invalid(f"{other} cannot be specified for a job definition that has {kind}: use {member}.")


def _without_ignored(overrides: Overrides, older: Sequence[str], registered: Sequence[str]) -> Overrides:
    """AWS: the older members `vcpus` and `memory` do not override an entry of the definition's resourceRequirements.

    `older`: the attributes that the request names by older members; `registered`: those of the definition.
    """
    ignored = [attribute for attribute in older if attribute not in registered]
    return replace(overrides, **dict.fromkeys(ignored)) if ignored else overrides


def _by_name(overrides: NamedOverrides, task: Task) -> ByName:
    """The overrides by the names of containers. A task's only container need not be named. Raises Invalid."""
    alone = task.containers[0].name if len(task.containers) == 1 else ""
    names = [name or alone for name, _ in overrides]
    require_unique(names, "A container in ecsPropertiesOverride")
    known = {container.name for container in task.containers}
    for name in names:
        if name not in known:
            raise Invalid(f"Container '{name}' in ecsPropertiesOverride is not one of the job definition's.")
    return {name: changes for name, (_, changes) in zip(names, overrides, strict=True)}


def _merge_nodes(request: JobRequest, definition: JobDefinition, parameters: Parameters) -> MergedWork:
    nodes = definition.nodes
    if request.node_overrides is None and request.needs is None:
        return MergedWork(nodes=effective_nodes(nodes, {}, parameters), needs=definition.needs)
    changes, terms = request.node_overrides or MultiNodeOverrides(), definition.terms
    ranges = terms.ranges or [RangeTerms(target=f"{span.first}:{span.last}") for span in nodes.ranges]
    if changes.count is not None and changes.count != nodes.count:
        nodes = resized(nodes, [range_terms.target for range_terms in ranges], changes.count)
    by_place = _by_place(changes.ranges, ranges, nodes)
    by_range = {
        (node_range.first, node_range.last): _of_range(by_place[place], node_range, ranges[place])
        for place, node_range in enumerate(nodes.ranges)
        if place in by_place
    }
    merged = effective_nodes(nodes, by_range, parameters)
    _check_tasks(merged, fargate=False)
    own = terms.needs if request.needs is None else request.needs
    needs = needs_of_nodes(own, list(_needs_of_ranges(by_place, ranges)), merged)
    longest = max((together(named.values()) for named in by_range.values()), key=length, default=Overrides())
    return MergedWork(nodes=merged, needs=needs, overrides=longest)


def _by_place(
    overrides: Sequence[RangeOverrides], terms: Sequence[RangeTerms], nodes: Nodes
) -> Mapping[int, RangeOverrides]:
    """The overrides by the index of their range. AWS: each must target one of the definition's ranges."""
    places = {range_terms.target: place for place, range_terms in enumerate(terms)}
    places |= {f"{node_range.first}:{node_range.last}": place for place, node_range in enumerate(nodes.ranges)}
    matched = [places.get(changes.target, places.get(_closed(changes.target, nodes.count))) for changes in overrides]
    unknown = [changes.target for changes, place in zip(overrides, matched, strict=True) if place is None]
    if unknown:
        text = "NodeOverride targets should match job definition. Non matching targets - "
        raise Invalid(text + ", ".join(unknown))
    require_unique(matched, "A range of nodePropertyOverrides")
    return {place: changes for place, changes in zip(matched, overrides, strict=True) if place is not None}


def _closed(target: str, count: int) -> str:
    first, last = node_bounds(target)
    return f"{first}:{count - 1 if last is None else last}"


def _of_range(changes: RangeOverrides, node_range: NodeRange, terms: RangeTerms) -> ByName:
    if terms.has_task:
        if changes.overrides is not None:
            raise Invalid(f"containerOverrides cannot be specified for the nodes {changes.target}.")
        return _by_name(changes.task_overrides or (), node_range.task)
    if changes.task_overrides is not None:
        raise Invalid(f"ecsPropertiesOverride cannot be specified for the nodes {changes.target}.")
    overrides = _without_ignored(changes.overrides or Overrides(), changes.older_members, terms.older_members)
    return {node_range.task.leading.name: overrides}


def _needs_of_ranges(by_place: Mapping[int, RangeOverrides], terms: Sequence[RangeTerms]) -> Iterator[Needs]:
    """AWS: an override replaces what was registered. An empty list counts as omitted."""
    for place, range_terms in enumerate(terms):
        changes = by_place.get(place)
        yield range_terms.needs if changes is None or not changes.needs else changes.needs


def _check_tasks(nodes: Nodes, *, fargate: bool) -> None:
    for task in nodes.tasks:
        for container in task.containers:
            check_memory(container.spec.resources)
        check_resources(task.resources, fargate=fargate)


def check_resources(resources: Resources, *, fargate: bool) -> None:
    """Raise Invalid for less memory than the minimum, and on Fargate for sizes that Fargate does not have.

    AWS: on EC2 at least one whole vCPU. batchq accepts fractions: it allocates the machine in thousandths of a vCPU.
    """
    if fargate:
        _check_fargate(resources)
    check_memory(resources)


def check_memory(resources: Resources) -> None:
    """Raise Invalid for less memory than the minimum."""
    if resources.memory_mib < MIN_MEMORY:
        raise Invalid(f"Container memory limit must be at least {MIN_MEMORY} MiB.")


def _check_fargate(resources: Resources) -> None:
    if resources.gpus:
        raise Invalid("GPU is not applicable for Fargate.")
    if resources.memory_mib not in FARGATE_SIZES.get(resources.millicpus, ()):
        raise Invalid("Fargate has no such combination of VCPU and MEMORY.")
