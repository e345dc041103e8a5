"""JobRequest: what a submission asks for, before the values of the job definition and the defaults apply. Pure.

Each dialect spells the members in its own way. `overrides.merge` applies the overrides to the job definition.
"""

from datetime import timedelta

from msgspec import Struct

from batchq.domain.catalog import Tags
from batchq.domain.container import Overrides
from batchq.domain.ids import JobId, QueueName, SubmissionKey
from batchq.domain.job import ConsumableRequirement, Dependency, RetryStrategy
from batchq.domain.task import Nodes
from batchq.domain.training import MetricRule

#: The overrides of a task's containers with their names. An empty name is that of a task's only container.
NamedOverrides = tuple[tuple[str, Overrides], ...]


class RangeOverrides(Struct, frozen=True, kw_only=True):
    """The overrides of the nodes of one range."""

    #: `first:last`, `:last` or `first:`, as the request spells them.
    target: str
    #: Of nodes with one container; None: the request has none.
    overrides: Overrides | None = None
    #: As in JobRequest.
    older_members: tuple[str, ...] = ()
    #: Of nodes with a task; None: the request has none.
    task_overrides: NamedOverrides | None = None
    #: Consumable resources of each node; empty: those of the definition.
    needs: tuple[ConsumableRequirement, ...] = ()


class MultiNodeOverrides(Struct, frozen=True, kw_only=True):
    """The overrides of a multi-node job."""

    #: How many nodes the job has; None: as many as in the definition.
    count: int | None = None
    ranges: tuple[RangeOverrides, ...] = ()


class JobRequest(Struct, frozen=True, kw_only=True):
    """A request for a job. Where no other meaning is given, None means that the request does not set the member."""

    name: str
    queue: QueueName
    #: With `inline`: the beginning of the definition's name, at most 95 characters.
    definition_name: str
    #: None: the newest ACTIVE revision.
    definition_revision: int | None = None
    #: What the job runs, if the request describes the containers itself; None: what the definition runs.
    inline: Nodes | None = None
    #: Of a job with one container.
    overrides: Overrides | None = None
    #: The attributes of `overrides` that the request names by AWS's older members `vcpus` and `memory`.
    older_members: tuple[str, ...] = ()
    #: Of a job with several containers on one node.
    task_overrides: NamedOverrides | None = None
    #: Of a multi-node job.
    node_overrides: MultiNodeOverrides | None = None
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
    #: As in `JobSpec`; its size is limited.
    client_document: str | None = None
    #: The time between the stop signal and the kill; None: the server's.
    stop_grace: timedelta | None = None
    #: How the metrics of the job are found in its log, besides the rules that its tags make.
    metric_rules: tuple[MetricRule, ...] = ()
    #: The id of the job, which must be new; None: a random one.
    job_id: JobId | None = None
    #: The idempotency key of the request; None: a repeated request submits another job.
    key: SubmissionKey | None = None
