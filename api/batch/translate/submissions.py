"""SubmitJob as the service takes it."""

import re
from collections.abc import Sequence

from api.batch.arns import Arns, Kind
from api.batch.translate import changes, checks, queues
from api.batch.translate.retries import retry
from api.batch.translate.rules import Rules
from api.batch.wire.jobs import ArrayProperties, JobDependency, SubmitJob
from batchq.domain.catalog import JobDefinition
from batchq.domain.job import Dependency, DependencyType
from batchq.domain.names import JobId
from batchq.errors import Invalid, NotFound
from batchq.service import Submission
from batchq.values import SubmissionKey

TOO_LARGE = 30 * 1024
MOST_DEPENDENCIES = 20
LEAST_CHILDREN = 2
MOST_CHILDREN = 10_000

_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_SHARE = re.compile(r"[A-Za-z0-9]{1,255}")


def check_size(body: bytes) -> None:
    if len(body) >= TOO_LARGE:
        raise Invalid(f"Job size must be less than 30 KiB, got {len(body) // 1024} KiB")


def submission(
    given: SubmitJob, definition: JobDefinition, *, arns: Arns, rules: Rules, key: SubmissionKey | None
) -> Submission:
    """Of that very revision, which may be another than the newest by the time the job is made."""
    if not _JOB_NAME.fullmatch(given.jobName):
        raise Invalid("Job name should match valid pattern")
    changed = changes.changes(given, definition, arns)
    return Submission(
        name=given.jobName,
        queue=queues.name_of(given.jobQueue, arns),
        definition_name=definition.ref.name,
        definition_revision=definition.ref.revision,
        overrides=changed.overrides,
        task=changed.task,
        nodes=changed.nodes,
        needs=changed.needs,
        array_size=_array_size(given.arrayProperties, definition),
        parameters=tuple((given.parameters or {}).items()),
        retry=retry(given.retryStrategy),
        timeout=checks.timeout(given.timeout, rules.min_timeout),
        depends_on=_dependencies(given.dependsOn or (), arns),
        tags=checks.tags(given.tags),
        propagate_tags=given.propagateTags,
        share_identifier=_share(given.shareIdentifier),
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


def _array_size(given: ArrayProperties | None, definition: JobDefinition) -> int | None:
    size = None if given is None else given.size
    if size is None:
        return None
    if not LEAST_CHILDREN <= size <= MOST_CHILDREN:
        raise Invalid(f"Array size must be between {LEAST_CHILDREN} and {MOST_CHILDREN}")
    if definition.nodes is not None:
        raise Invalid("A job of a multinode job definition cannot be an array job.")
    return size


def _share(text: str | None) -> str | None:
    if text and not _SHARE.fullmatch(text):
        raise Invalid("shareIdentifier must be 1 to 255 letters and digits.")
    return text or None


def _dependencies(given: Sequence[JobDependency], arns: Arns) -> tuple[Dependency, ...]:
    if len(given) > MOST_DEPENDENCIES:
        raise Invalid(f"Job cannot have more than {MOST_DEPENDENCIES} dependencies")
    return tuple(_dependency(it, arns) for it in given)


def _dependency(given: JobDependency, arns: Arns) -> Dependency:
    """AWS: without a job it is between the children of one array; N_TO_N is between two arrays."""
    if given.type and given.type not in set(DependencyType):
        raise Invalid(f"The type of a dependency must be one of {', '.join(DependencyType)}.")
    kind = DependencyType(given.type) if given.type else None
    if kind is DependencyType.SEQUENTIAL and not given.jobId:
        return Dependency(job_id=None, type=kind)
    job_id = arns.named(Kind.JOB, checks.required(given.jobId or "", "jobId"))
    if job_id is None:
        raise Invalid(f"Job {given.jobId} in dependsOn does not exist.")
    return Dependency(job_id=JobId(job_id), type=kind)
