"""SubmitJob as the service takes it."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from api.batch.arns import Arns, Kind
from api.batch.translate import checks, queues, resources
from api.batch.translate.retries import retry
from api.batch.translate.rules import Rules
from api.batch.wire.containers import ContainerOverrides
from api.batch.wire.jobs import JobDependency, SubmitJob
from batchq.domain.catalog import JobDefinition
from batchq.domain.container import Overrides, effective
from batchq.domain.job import Dependency, DependencyType
from batchq.domain.names import JobId
from batchq.errors import Invalid, NotFound, NotSupported
from batchq.service import Submission
from batchq.values import SubmissionKey

TOO_LARGE = 30 * 1024
MOST_DEPENDENCIES = 20

_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def check_size(body: bytes) -> None:
    if len(body) >= TOO_LARGE:
        raise Invalid(f"Job size must be less than 30 KiB, got {len(body) // 1024} KiB")


def submission(given: SubmitJob, *, arns: Arns, rules: Rules, key: SubmissionKey | None) -> Submission:
    """All of it but the definition's say in the overrides of resources: see `overrides`."""
    _check_unserved(given)
    if not _JOB_NAME.fullmatch(given.jobName):
        raise Invalid("Job name should match valid pattern")
    name, revision = definition_of(given.jobDefinition, arns)
    return Submission(
        name=given.jobName,
        queue=queues.name_of(given.jobQueue, arns),
        definition_name=name,
        definition_revision=revision,
        overrides=_overrides(given.containerOverrides),
        parameters=tuple((given.parameters or {}).items()),
        retry=retry(given.retryStrategy),
        timeout=checks.timeout(given.timeout, rules.min_timeout),
        depends_on=_dependencies(given.dependsOn or (), arns),
        tags=checks.tags(given.tags),
        propagate_tags=given.propagateTags,
        scheduling_priority=given.schedulingPriorityOverride,
        key=key,
    )


def definition_of(text: str, arns: Arns) -> tuple[str, int | None]:
    found = arns.definition_named(checks.required(text, "jobDefinition"))
    if found is None:
        raise unknown_definition(text)
    return found


def unknown_definition(text: str) -> NotFound:
    """AWS: one text for a name, another for an ARN."""
    if text.startswith("arn:"):
        return NotFound(f"JobDefinition {text} not found.")
    return NotFound(f"JobDefinition name {text} does not exist or is not in ACTIVE status")


def asks_for_resources(given: SubmitJob) -> bool:
    over = given.containerOverrides
    return over is not None and bool(over.resourceRequirements or over.vcpus is not None or over.memory is not None)


def settle(submission: Submission, given: SubmitJob, definition: JobDefinition) -> Submission:
    """The same of that very revision, its resources weighed against it.

    AWS: the older numbers override nothing that a definition says in resourceRequirements.
    """
    document = json.loads(definition.document)
    over = given.containerOverrides or ContainerOverrides()
    named = {entry["type"] for entry in document.get("containerProperties", {}).get("resourceRequirements", ())}
    older = {member: None for member, kind in (("vcpus", "VCPU"), ("memory", "MEMORY")) if kind in named}
    asked = resources.asked(over.model_copy(update=older))
    wanted = replace(submission.overrides, millicpus=asked.millicpus, memory_mib=asked.memory_mib, gpus=asked.gpus)
    fargate = "FARGATE" in document.get("platformCapabilities", ())
    resources.check(effective(definition.container, wanted, ()).resources, fargate=fargate)
    return replace(submission, overrides=wanted, definition_revision=definition.ref.revision)


def _check_unserved(given: SubmitJob) -> None:
    checks.unserved(
        {
            "arrayProperties": given.arrayProperties and given.arrayProperties.size is not None,
            "nodeOverrides": given.nodeOverrides,
            "eksPropertiesOverride": given.eksPropertiesOverride,
            "ecsPropertiesOverride": given.ecsPropertiesOverride,
        }
    )
    checks.no_resources(given.consumableResourcePropertiesOverride, "consumableResourcePropertiesOverride")
    if given.shareIdentifier:
        raise Invalid("shareIdentifier must not be specified: the job queue has no scheduling policy.")


def _overrides(given: ContainerOverrides | None) -> Overrides:
    """AWS: an empty command overrides nothing, and no word of another may be empty."""
    if given is None:
        return Overrides()
    if "" in (given.command or ()):
        raise Invalid("The command of containerOverrides must not have empty elements.")
    asked = resources.asked(given)
    return Overrides(
        command=tuple(given.command) if given.command else None,
        environment=checks.pairs(given.environment),
        millicpus=asked.millicpus,
        memory_mib=asked.memory_mib,
        gpus=asked.gpus,
    )


def _dependencies(given: Sequence[JobDependency], arns: Arns) -> tuple[Dependency, ...]:
    if len(given) > MOST_DEPENDENCIES:
        raise Invalid(f"Job cannot have more than {MOST_DEPENDENCIES} dependencies")
    return tuple(_dependency(it, arns) for it in given)


def _dependency(given: JobDependency, arns: Arns) -> Dependency:
    """AWS: SEQUENTIAL with a job is a plain dependency; the other forms are between the children of arrays."""
    if given.type and given.type not in set(DependencyType):
        raise Invalid(f"The type of a dependency must be one of {', '.join(DependencyType)}.")
    if given.type == DependencyType.N_TO_N or (given.type and not given.jobId):
        raise NotSupported(f"A dependency of type {given.type} is between arrays, which this server does not have.")
    job_id = arns.named(Kind.JOB, checks.required(given.jobId or "", "jobId"))
    if job_id is None:
        raise Invalid(f"Job {given.jobId} in dependsOn does not exist.")
    return Dependency(job_id=JobId(job_id), type=DependencyType(given.type) if given.type else None)
