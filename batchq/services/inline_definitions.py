"""Job definitions for requests that describe the containers themselves, as in the dialects for training jobs.

Every job has a job definition, because AWS Batch's operations show it and repeat jobs with it. The definition has the
image, resources and mounts; the command, the variables and the files are the job's own. So all jobs that differ only in
these share one revision.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import DefinitionStatus, JobDefinition
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import DefinitionRef
from batchq.domain.job import RetryStrategy
from batchq.domain.job_request import InlineDefinition
from batchq.domain.task import Task
from batchq.errors import Forbidden, NotFound
from batchq.ports.clock import Clock
from batchq.services.catalog_tables import JobDefinitionService

_HASH_LENGTH = 32  # hex digits in the name of a definition


class InlineDefinitions:
    """The job definitions of jobs whose request describes the containers itself."""

    def __init__(self, *, definitions: JobDefinitionService, clock: Clock) -> None:
        self._definitions = definitions
        self._clock = clock

    async def find_or_register(self, prefix: str, work: InlineDefinition, *, caller: Caller) -> JobDefinition:
        """A definition of the caller for such work: an existing one, or a new one. `prefix`: of its name.

        The name is derived from the content and the user. A revision that another user has registered is not used, also
        with equal content: the job would have the rights of that user only.
        """
        base = _without_commands(work)
        content = (caller.user, caller.account, msgspec.to_builtins(base))
        digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]
        try:
            found = await self._definitions.find(f"{prefix}_{digest}", None, caller=caller)
            is_own = found.author == caller.owner
            if is_own and InlineDefinition(container=found.container, nodes=found.nodes) == base and _is_plain(found):
                return found
        except NotFound:
            pass
        try:
            return await self._register(f"{prefix}_{digest}", base, caller)
        except Forbidden:
            return await self._register(f"{prefix}_{uuid4().hex}", base, caller)

    async def _register(self, name: str, base: InlineDefinition, caller: Caller) -> JobDefinition:
        definition = JobDefinition(
            ref=DefinitionRef(name=name, revision=0),
            status=DefinitionStatus.ACTIVE,
            container=base.container,
            nodes=base.nodes,
            retry=RetryStrategy(),
            document=json.dumps(_document(base)),
            created_at=self._clock.now(),
        )
        return await self._definitions.register(definition, caller=caller)


def _is_plain(found: JobDefinition) -> bool:
    """Whether jobs would take nothing but containers from the definition."""
    others = (found.task, found.timeout, found.scheduling_priority, *found.needs, *found.parameters)
    return not any(others) and not found.propagate_tags and found.retry == RetryStrategy()


def _without_commands(work: InlineDefinition) -> InlineDefinition:
    """The part of the work that its definition has."""
    nodes = work.nodes and replace(
        work.nodes,
        ranges=tuple(
            replace(node_range, task=_task_without_commands(node_range.task)) for node_range in work.nodes.ranges
        ),
    )
    return InlineDefinition(container=nodes.leading.spec if nodes else _base(work.container), nodes=nodes)


def _task_without_commands(task: Task) -> Task:
    return replace(
        task, containers=tuple(replace(container, spec=_base(container.spec)) for container in task.containers)
    )


def _base(spec: ContainerSpec) -> ContainerSpec:
    return replace(spec, command=(), environment=(), files=())


def _document(base: InlineDefinition) -> Mapping[str, object]:
    if base.nodes is None:
        return {"type": "container", "containerProperties": _container_properties(base.container)}
    ranges = [
        {
            "targetNodes": f"{node_range.first}:{node_range.last}",
            "container": _container_properties(node_range.task.leading.spec),
        }
        for node_range in base.nodes.ranges
    ]
    nodes = {"numNodes": base.nodes.count, "mainNode": base.nodes.main, "nodeRangeProperties": ranges}
    return {"type": "multinode", "nodeProperties": nodes}


def _container_properties(spec: ContainerSpec) -> Mapping[str, object]:
    size = spec.resources
    amounts = {"VCPU": f"{size.millicpus / 1000:g}", "MEMORY": str(size.memory_mib), "GPU": str(size.gpus or "")}
    volumes = [
        {"name": f"volume-{index}", **({} if mount.host_path is None else {"host": {"sourcePath": mount.host_path}})}
        for index, mount in enumerate(spec.mounts)
    ]
    points = [
        {"containerPath": mount.container_path, "readOnly": mount.read_only, "sourceVolume": f"volume-{index}"}
        for index, mount in enumerate(spec.mounts)
    ]
    return {
        "image": spec.image,
        "resourceRequirements": [{"type": kind, "value": value} for kind, value in amounts.items() if value],
        **({"volumes": volumes, "mountPoints": points} if volumes else {}),
        **({"linuxParameters": {"initProcessEnabled": True}} if spec.init else {}),
    }
