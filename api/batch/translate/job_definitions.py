"""Job definitions: requests to the domain's values, and values to responses."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from msgspec import Struct

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.server_limits import Rules
from batchq.api.batch.translate import (
    consumable_requirements,
    nodes,
    retry_strategy,
    tasks,
    unsupported,
    validation,
)
from batchq.api.batch.translate.containers import alone
from batchq.api.batch.wire.job_definitions import DescribeJobDefinitions, RegisterJobDefinition
from batchq.domain.catalog import DefinitionStatus, JobDefinition
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import DefinitionRef
from batchq.domain.job import Need, RetryStrategy
from batchq.domain.task import Nodes, Task
from batchq.errors import Invalid, NotSupported

LARGEST = 24 * 1024  # bytes of a request
REMEMBERED = 128  # parsed documents in the cache

ECHOED = {
    "type",
    "parameters",
    "schedulingPriority",
    "containerProperties",
    "ecsProperties",
    "nodeProperties",
    "consumableResourceProperties",
    "retryStrategy",
    "propagateTags",
    "timeout",
    "platformCapabilities",
}
# AWS: if these members were omitted they are returned as empty lists; other omitted members are not returned.
EMPTY = ("command", "environment", "mountPoints", "resourceRequirements", "secrets", "ulimits", "volumes")


@lru_cache(REMEMBERED)
def document(text: str) -> Mapping[str, Any]:
    """Parse a stored document. The result is cached and shared, so it must not be changed."""
    read: Mapping[str, Any] = json.loads(text)
    return read


def check_size(body: bytes) -> None:
    if len(body) > LARGEST:
        raise Invalid(f"Job definition size must be at most 24 KiB, got {len(body)} bytes")


def definition(given: RegisterJobDefinition, *, arns: BatchArns, rules: Rules, now: datetime) -> JobDefinition:
    """The job definition to register; the catalog sets its revision. Raises Invalid."""
    ref = DefinitionRef(name=validation.name(given.jobDefinitionName, "jobDefinitionName"), revision=0)
    work = _work(given, arns)
    if work.privileged and not rules.privileged:
        raise NotSupported("privileged containers, and devices of the host, are not allowed by this server.")
    return JobDefinition(
        ref=ref,
        status=DefinitionStatus.ACTIVE,
        container=work.container,
        task=work.task,
        nodes=work.nodes,
        needs=work.needs,
        parameters=tuple((given.parameters or {}).items()),
        retry=retry_strategy.retry(given.retryStrategy) or RetryStrategy(),
        timeout=validation.timeout(given.timeout, rules.min_timeout),
        scheduling_priority=given.schedulingPriority,
        propagate_tags=bool(given.propagateTags),
        document=given.model_dump_json(include=ECHOED, exclude_none=True),
        tags=validation.tags(given.tags),
        created_at=now,
    )


class Work(Struct, frozen=True, kw_only=True):
    """What the jobs of a definition run."""

    #: The only container, or the leading one of `task` or `nodes`.
    container: ContainerSpec
    #: Set if the definition has ecsProperties.
    task: Task | None = None
    #: Set if the definition has nodeProperties.
    nodes: Nodes | None = None
    #: The consumable resources that a job requires, for all its nodes.
    needs: tuple[Need, ...]

    @property
    def privileged(self) -> bool:
        """Whether any container is privileged, or has devices of the host, which is equivalent."""
        several = [it.task for it in self.nodes.ranges] if self.nodes else [self.task] if self.task else []
        specs = [self.container, *(container.spec for task in several for container in task.containers)]
        return any(it.privileged or it.devices for it in specs)


def _work(given: RegisterJobDefinition, arns: BatchArns) -> Work:
    """AWS: a job definition has exactly one kind of properties, which depends on its type."""
    unsupported.refuse({"eksProperties": given.eksProperties}, unsupported.KUBERNETES)
    fargate = "FARGATE" in (given.platformCapabilities or ())
    own = consumable_requirements.needs(given.consumableResourceProperties, arns)
    if given.type == "multinode":
        return _gang(given, own, arns, fargate=fargate)
    if given.nodeProperties is not None:
        raise Invalid("nodeProperties can be specified only for a job definition of type multinode.")
    if given.containerProperties is not None and given.ecsProperties is not None:
        raise Invalid("Only one of containerProperties and ecsProperties can be provided.")
    if given.ecsProperties is not None:
        task = tasks.task(given.ecsProperties, on_fargate=fargate)
        return Work(container=task.leading.spec, task=task, needs=own)
    if given.containerProperties is None:
        raise Invalid("containerProperties must be provided.")
    return Work(container=alone(given.containerProperties, on_fargate=fargate), needs=own)


def _gang(given: RegisterJobDefinition, own: tuple[Need, ...], arns: BatchArns, *, fargate: bool) -> Work:
    if given.containerProperties is not None or given.ecsProperties is not None:
        raise Invalid("A multinode job definition has the properties of its containers in nodeProperties only.")
    if fargate:
        raise Invalid("multinode is not applicable for Fargate.")
    if given.nodeProperties is None:
        raise Invalid("nodeProperties must be provided.")
    gang = nodes.gang(given.nodeProperties)
    each = [it.consumableResourceProperties for it in given.nodeProperties.nodeRangeProperties]
    return Work(container=gang.leading.spec, nodes=gang, needs=consumable_requirements.of_gang(own, each, gang, arns))


def ref_of(text: str, arns: BatchArns) -> DefinitionRef | None:
    """The revision in `name:revision` or an ARN; None if there is none. Raises Invalid for another account's ARN."""
    name, revision = arns.definition_named(text) or ("", None)
    return None if revision is None else DefinitionRef(name=name, revision=revision)


def position(text: str) -> DefinitionRef:
    """Parse the text of a DefinitionRef."""
    name, _, revision = text.rpartition(":")
    return DefinitionRef(name=name, revision=int(revision))


def check_selector(given: DescribeJobDefinitions) -> None:
    others = given.jobDefinitionName or given.status or given.maxResults or given.nextToken
    if given.jobDefinitions and others:
        raise Invalid("jobDefinitions cannot be used with other parameters.")


def detail(registered: JobDefinition, arns: BatchArns) -> dict[str, object]:
    """The response of DescribeJobDefinitions: the registered document, with the revision and its status."""
    said = document(registered.document)
    return {
        "jobDefinitionName": registered.ref.name,
        "jobDefinitionArn": arns.definition(registered.ref),
        "revision": registered.ref.revision,
        "status": registered.status.value,
        "parameters": {},
        "tags": dict(registered.tags),
        "containerOrchestrationType": "ECS",
        "platformCapabilities": ["EC2"],
        **said,
        **_filled(said),
        **({"retryStrategy": retry_strategy.registered(said["retryStrategy"])} if "retryStrategy" in said else {}),
    }


def _filled(said: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a document for whose containers AWS returns empty lists."""
    if "nodeProperties" in said:
        return {"nodeProperties": node_properties(said["nodeProperties"])}
    return {"containerProperties": filled(said["containerProperties"])} if "containerProperties" in said else {}


def node_properties(registered: Mapping[str, Any]) -> dict[str, Any]:
    ranges = [
        {**it, "container": filled(it["container"])} if "container" in it else it
        for it in registered["nodeRangeProperties"]
    ]
    return {**registered, "nodeRangeProperties": ranges}


def filled(container: Mapping[str, Any]) -> dict[str, Any]:
    return {member: [] for member in EMPTY} | dict(container)
