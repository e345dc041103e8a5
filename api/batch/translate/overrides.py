"""What SubmitJob may change of one container, or of the containers of one task."""

from collections.abc import Mapping
from typing import Any

from api.batch.translate import checks, resources
from api.batch.wire.containers import ContainerOverrides
from api.batch.wire.tasks import EcsPropertiesOverride, TaskContainerOverrides
from batchq.domain.container import Overrides
from batchq.domain.task import ByName, Task
from batchq.errors import Invalid

OLDER = (("vcpus", "VCPU"), ("memory", "MEMORY"))


def of_container(given: ContainerOverrides | None, registered: Mapping[str, Any]) -> Overrides:
    """`registered` are the containerProperties that it is laid over.

    AWS: the older numbers override nothing that a definition says in resourceRequirements; an empty command overrides
    nothing, and no word of another may be empty.
    """
    if given is None:
        return Overrides()
    if "" in (given.command or ()):
        raise Invalid("The command of containerOverrides must not have empty elements.")
    asked = resources.asked(given)
    named = {entry["type"] for entry in registered.get("resourceRequirements", ())}
    older = {member: None for member, kind in OLDER if kind in named and getattr(given, member) is not None}
    if older:
        asked = resources.asked(given.model_copy(update=older))
    return Overrides(
        command=tuple(given.command) if given.command else None,
        environment=checks.pairs(given.environment),
        millicpus=asked.millicpus,
        memory_mib=asked.memory_mib,
        gpus=asked.gpus,
    )


def of_task(given: EcsPropertiesOverride | None, task: Task) -> ByName:
    """By the names of containers. A container that is alone need not be named."""
    asked = (given and given.taskProperties) or []
    if len(asked) > 1:
        raise Invalid("taskProperties must have exactly 1 element.")
    containers = [it for one in asked for it in one.containers or ()]
    alone = task.containers[0].name if len(task.containers) == 1 else ""
    names = [it.name or alone for it in containers]
    checks.once(names, "A container in ecsPropertiesOverride")
    for name in names:
        if name not in {it.name for it in task.containers}:
            raise Invalid(f"Container '{name}' in ecsPropertiesOverride is not one of the job definition's.")
    return {name: of_container(_alike(it), {}) for name, it in zip(names, containers, strict=True)}


def _alike(given: TaskContainerOverrides) -> ContainerOverrides:
    return ContainerOverrides(
        command=given.command, environment=given.environment, resourceRequirements=given.resourceRequirements
    )
