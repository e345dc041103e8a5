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
from batchq.domain.task import DefinitionForm, Nodes
from batchq.errors import Forbidden, NotFound
from batchq.ports.clock import Clock
from batchq.services.catalog_tables import JobDefinitionService

_HASH_LENGTH = 32  # hex digits in the name of a definition


class InlineDefinitions:
    """The job definitions of jobs whose request describes the containers itself."""

    def __init__(self, *, definitions: JobDefinitionService, clock: Clock) -> None:
        self._definitions = definitions
        self._clock = clock

    async def find_or_register(self, prefix: str, work: Nodes, *, caller: Caller) -> JobDefinition:
        """A definition of the caller for such work: an existing one, or a new one. `prefix`: of its name.

        The name is derived from the content and the user. A revision that another user has registered is not used, also
        with equal content: the job would have the rights of that user only.
        """
        # The command, the variables and the files are those of the job.
        base = work.with_specs(lambda _, container: replace(container.spec, command=(), environment=(), files=()))
        content = (caller.user, caller.account, msgspec.to_builtins(base))
        digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]
        try:
            found = await self._definitions.find(f"{prefix}_{digest}", None, caller=caller)
            is_own = found.author == caller.owner
            if is_own and found.nodes == base and _is_plain(found):
                return found
        except NotFound:
            pass
        try:
            return await self._register(f"{prefix}_{digest}", base, caller)
        except Forbidden:
            return await self._register(f"{prefix}_{uuid4().hex}", base, caller)

    async def _register(self, name: str, base: Nodes, caller: Caller) -> JobDefinition:
        definition = JobDefinition(
            ref=DefinitionRef(name=name, revision=0),
            status=DefinitionStatus.ACTIVE,
            nodes=base,
            retry=RetryStrategy(),
            document=json.dumps(_document(base)),
            created_at=self._clock.now(),
        )
        return await self._definitions.register(definition, caller=caller)


def _is_plain(found: JobDefinition) -> bool:
    """Whether jobs would take nothing but nodes from the definition."""
    others = (found.timeout, found.scheduling_priority, *found.needs, *found.parameters)
    return not any(others) and not found.propagate_tags and found.retry == RetryStrategy()


def _document(base: Nodes) -> Mapping[str, object]:
    if base.form is DefinitionForm.CONTAINER:
        return {"type": "container", "containerProperties": _container_properties(base.leading.spec)}
    ranges = [
        {
            "targetNodes": f"{node_range.first}:{node_range.last}",
            "container": _container_properties(node_range.task.leading.spec),
        }
        for node_range in base.ranges
    ]
    nodes = {"numNodes": base.count, "mainNode": base.main, "nodeRangeProperties": ranges}
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
