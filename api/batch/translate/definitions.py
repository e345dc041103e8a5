"""Job definitions, both ways."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from api.batch.arns import Arns
from api.batch.translate import checks
from api.batch.translate.containers import container
from api.batch.translate.retries import retry
from api.batch.translate.rules import Rules
from api.batch.wire.containers import ContainerProperties
from api.batch.wire.definitions import DescribeJobDefinitions, RegisterJobDefinition
from batchq.domain.catalog import DefinitionStatus, JobDefinition
from batchq.domain.job import RetryStrategy
from batchq.domain.names import DefinitionRef
from batchq.errors import Invalid, NotSupported

LARGEST = 24 * 1024

ECHOED = {
    "type",
    "parameters",
    "schedulingPriority",
    "containerProperties",
    "retryStrategy",
    "propagateTags",
    "timeout",
    "platformCapabilities",
}
# AWS: of these an empty list is told, of other members that were left out nothing.
EMPTY = ("command", "environment", "mountPoints", "resourceRequirements", "secrets", "ulimits", "volumes")


def check_size(body: bytes) -> None:
    if len(body) > LARGEST:
        raise Invalid(f"Job definition size must be at most 24 KiB, got {len(body)} bytes")


def definition(given: RegisterJobDefinition, *, rules: Rules, now: datetime) -> JobDefinition:
    """What was registered. The revision is the catalog's to give."""
    properties = _properties(given)
    if properties.privileged and not rules.privileged:
        raise NotSupported("privileged containers are not allowed by this server.")
    return JobDefinition(
        ref=DefinitionRef(name=checks.name(given.jobDefinitionName, "jobDefinitionName"), revision=0),
        status=DefinitionStatus.ACTIVE,
        container=container(properties, on_fargate="FARGATE" in (given.platformCapabilities or ())),
        parameters=tuple((given.parameters or {}).items()),
        retry=retry(given.retryStrategy) or RetryStrategy(),
        timeout=checks.timeout(given.timeout, rules.min_timeout),
        scheduling_priority=given.schedulingPriority,
        propagate_tags=bool(given.propagateTags),
        document=given.model_dump_json(include=ECHOED, exclude_none=True),
        tags=checks.tags(given.tags),
        created_at=now,
    )


def _properties(given: RegisterJobDefinition) -> ContainerProperties:
    if given.type != "container":
        raise NotSupported(f"Job definitions of type {given.type} are not supported by this server.")
    checks.unserved(
        {
            "nodeProperties": given.nodeProperties,
            "eksProperties": given.eksProperties,
            "ecsProperties": given.ecsProperties,
        }
    )
    checks.no_resources(given.consumableResourceProperties, "consumableResourceProperties")
    if given.containerProperties is None:
        raise Invalid("containerProperties must be provided.")
    return given.containerProperties


def ref_of(text: str, arns: Arns) -> DefinitionRef | None:
    """The revision that `name:revision` or an ARN means; None where it means none."""
    name, revision = arns.definition_named(text) or ("", None)
    return None if revision is None else DefinitionRef(name=name, revision=revision)


def position(text: str) -> DefinitionRef:
    """The ref that a DefinitionRef's own text says."""
    name, _, revision = text.rpartition(":")
    return DefinitionRef(name=name, revision=int(revision))


def check_selector(given: DescribeJobDefinitions) -> None:
    others = given.jobDefinitionName or given.status or given.maxResults or given.nextToken
    if given.jobDefinitions and others:
        raise Invalid("jobDefinitions cannot be used with other parameters.")


def detail(registered: JobDefinition, arns: Arns) -> dict[str, object]:
    """What DescribeJobDefinitions tells of it: what was registered, and what became of it."""
    document = json.loads(registered.document)
    return {
        "jobDefinitionName": registered.ref.name,
        "jobDefinitionArn": arns.definition(registered.ref),
        "revision": registered.ref.revision,
        "status": registered.status.value,
        "parameters": {},
        "tags": dict(registered.tags),
        "containerOrchestrationType": "ECS",
        "platformCapabilities": ["EC2"],
        **document,
        "containerProperties": properties(document),
    }


def properties(document: Mapping[str, Any]) -> dict[str, Any]:
    """The containerProperties of a document, with the empty lists that AWS tells."""
    registered: dict[str, Any] = document.get("containerProperties", {})
    return {member: [] for member in EMPTY} | registered
