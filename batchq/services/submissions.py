"""Submissions of jobs: the request, the job specification that it and the job definition make, and its checks."""

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from batchq.domain.access.accounts import Owner
from batchq.domain.catalog import JobDefinition, JobQueue, Tags
from batchq.domain.container import (
    ContainerSpec,
    Overrides,
    creates_host_paths,
    creating_host_paths,
    effective,
    merge_pairs,
)
from batchq.domain.ids import JobId, QueueName, node_of
from batchq.domain.job import ConsumableRequirement, Dependency, Job, JobSpec, RetryStrategy
from batchq.domain.scheduling.dependencies import invalid_overrides
from batchq.domain.task import (
    Nodes,
    Task,
    effective_nodes,
    effective_task,
    nodes_creating_host_paths,
    task_creating_host_paths,
)
from batchq.domain.training import MetricRule, check_rules, checkpoint_rules, metric_rules, training_plan
from batchq.errors import Invalid
from batchq.ports.jobs import SubmissionKey
from batchq.services.client_requests import ORIGIN_TAGS
from batchq.services.training import patterns

MAX_CLIENT_DOCUMENT = 32 * 1024  # bytes, about as much as AWS's largest SubmitJob request


class Submission(Struct, frozen=True, kw_only=True):
    """A SubmitJob request. Where no other meaning is given, None means that the request does not set the member."""

    name: str
    queue: QueueName
    definition_name: str
    #: None: the newest ACTIVE revision.
    definition_revision: int | None = None
    #: All overrides of the request. `task` and `nodes` have them applied already; then only their length is checked.
    overrides: Overrides
    #: The container of a job whose request describes it whole, instead of the definition's with `overrides`.
    container: ContainerSpec | None = None
    #: The definition's task with the overrides of the request applied.
    task: Task | None = None
    #: The definition's nodes with the overrides of the request applied.
    nodes: Nodes | None = None
    #: None: not an array.
    array_size: int | None = None
    #: Replaces the definition's requirements of consumable resources.
    needs: tuple[ConsumableRequirement, ...] | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    retry: RetryStrategy | None = None
    timeout: timedelta | None = None
    depends_on: tuple[Dependency, ...] = ()
    tags: Tags = ()
    propagate_tags: bool | None = None
    share_identifier: str | None = None
    scheduling_priority: int | None = None
    #: As in `JobSpec`; at most MAX_CLIENT_DOCUMENT bytes.
    client_document: str | None = None
    #: The time between the stop signal and the kill; None: the server's.
    stop_grace: timedelta | None = None
    #: How the metrics of the job are found in its log, besides the rules that its tags make.
    metric_rules: tuple[MetricRule, ...] = ()
    #: The id of the job, which must be new; None: a random one.
    job_id: JobId | None = None
    #: The idempotency key of the request; None: a repeated request submits another job.
    key: SubmissionKey | None = None


def build_spec(submission: Submission, definition: JobDefinition, *, owner: Owner, stop_grace: timedelta) -> JobSpec:
    """The job specification: the definition with the submission's overrides.

    AWS: retryStrategy and timeout replace those of the definition as a whole. Raises Invalid for tags of batchq with an
    invalid value.
    """
    parameters = merge_pairs(definition.parameters, submission.parameters)
    priority, propagate = submission.scheduling_priority, submission.propagate_tags
    container, task, gang = _work(submission, definition, parameters)
    propagate = definition.propagate_tags if propagate is None else propagate
    tags = merge_pairs(definition.tags, submission.tags) if propagate else ()
    return JobSpec(
        owner=owner,
        name=submission.name,
        queue=submission.queue,
        definition=definition.ref,
        container=container,
        task=task,
        nodes=gang,
        array_size=submission.array_size,
        needs=definition.needs if submission.needs is None else submission.needs,
        overrides=submission.overrides,
        parameters=parameters,
        retry=submission.retry or definition.retry,
        timeout=submission.timeout or definition.timeout,
        depends_on=submission.depends_on,
        scheduling_priority=definition.scheduling_priority if priority is None else priority,
        share_identifier=submission.share_identifier,
        propagate_tags=propagate,
        invalid=invalid_overrides(submission.overrides, len(tags)),
        client_document=submission.client_document,
        stop_grace=submission.stop_grace or stop_grace,
        checkpoints=checkpoint_rules(submission.tags),
        metric_rules=metric_rules_of(submission),
        plan=training_plan(submission.tags),
    )


def _work(
    submission: Submission, definition: JobDefinition, parameters: tuple[tuple[str, str], ...]
) -> tuple[ContainerSpec, Task | None, Nodes | None]:
    task, gang = submission.task or definition.task, submission.nodes or definition.nodes
    task = task and effective_task(task, {}, parameters)
    gang = gang and effective_nodes(gang, {}, parameters)
    creates = creates_host_paths(submission.tags)
    if creates:
        task, gang = task and task_creating_host_paths(task), gang and nodes_creating_host_paths(gang)
    several = gang or task
    if several:
        return several.leading.spec, task, gang
    container = submission.container or effective(definition.container, submission.overrides, parameters)
    return creating_host_paths(container) if creates else container, None, None


def first_job_ids(submission: Submission) -> Mapping[str, JobId]:
    """The jobs that the submission repeats or copies, by the tag that names each."""
    return {tag: node_of(JobId(value))[0] for tag, value in submission.tags if tag in ORIGIN_TAGS}


def authors_of(
    submission: Submission, definition: JobDefinition, first_jobs: Mapping[JobId, Job], *, owner: Owner
) -> tuple[Owner, ...]:
    """The authors of the new job. `first_jobs`: those of `first_job_ids` that are visible to its owner.

    Raises Invalid if one is missing.
    """
    authors = [definition.author]
    for tag, job_id in first_job_ids(submission).items():
        if job_id not in first_jobs:
            raise Invalid(f"Job {job_id} of the tag {tag} not found.")
        authors += [first_jobs[job_id].spec.owner, *first_jobs[job_id].spec.authors]
    return tuple(fromkey for fromkey in dict.fromkeys(authors) if fromkey != owner)


def metric_rules_of(submission: Submission) -> tuple[MetricRule, ...]:
    """The rules of the request and of its tags. Raises Invalid, also for a regular expression that is not valid."""
    rules = (*submission.metric_rules, *metric_rules(submission.tags))
    check_rules(list(rules))
    patterns(rules)
    return rules


def check_client_document(document: str | None) -> None:
    """Raises Invalid for a document that is too large to be stored with each job."""
    if document is not None and len(document.encode()) > MAX_CLIENT_DOCUMENT:
        raise Invalid(f"The description of the job must be at most {MAX_CLIENT_DOCUMENT} bytes of JSON.")


def check_share(queue: JobQueue, spec: JobSpec) -> None:
    """Check shareIdentifier and schedulingPriority. Raises Invalid.

    AWS: a queue with a scheduling policy requires both; a queue without one forbids shareIdentifier.
    """
    if queue.policy is None:
        if spec.share_identifier:
            raise Invalid("shareIdentifier must not be specified: the job queue has no scheduling policy.")
        return
    if not spec.share_identifier:
        raise Invalid("shareIdentifier must be specified.")
    if spec.scheduling_priority is None:
        raise Invalid("Either schedulingPriority in job definition or schedulingPriorityOverride should be specified.")
