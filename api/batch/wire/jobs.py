"""Shapes of jobs."""

from typing import Annotated

from pydantic import Field

from batchq.api.batch.wire.consumable_requirements import ConsumableResourceProperties
from batchq.api.batch.wire.containers import ContainerOverrides
from batchq.api.batch.wire.job_definitions import JobTimeout, RetryStrategy
from batchq.api.batch.wire.nodes import NodeOverrides
from batchq.api.batch.wire.shape import Integer, Tags, Text, Unserved, WireModel
from batchq.api.batch.wire.tasks import EcsPropertiesOverride


class ArrayProperties(WireModel):
    size: Integer | None = None


class JobDependency(WireModel):
    jobId: Text | None = None
    type: Text | None = None


class SubmitJob(WireModel):
    jobName: Text
    jobQueue: Text
    jobDefinition: Text
    shareIdentifier: Text | None = None
    schedulingPriorityOverride: Annotated[int, Field(ge=0, le=9999)] | None = None
    arrayProperties: ArrayProperties | None = None
    dependsOn: list[JobDependency] | None = None
    parameters: dict[Text, Text] | None = None
    containerOverrides: ContainerOverrides | None = None
    nodeOverrides: NodeOverrides | None = None
    retryStrategy: RetryStrategy | None = None
    propagateTags: bool | None = None
    timeout: JobTimeout | None = None
    tags: Tags | None = None
    eksPropertiesOverride: Unserved | None = None
    ecsPropertiesOverride: EcsPropertiesOverride | None = None
    consumableResourcePropertiesOverride: ConsumableResourceProperties | None = None


class DescribeJobs(WireModel):
    jobs: list[Text]


class KeyValuesPair(WireModel):
    name: Text | None = None
    values: list[Text] | None = None


class ListJobs(WireModel):
    jobQueue: Text | None = None
    arrayJobId: Text | None = None
    multiNodeJobId: Text | None = None
    jobStatus: Text | None = None
    maxResults: Annotated[int, Field(ge=1, le=1000)] | None = None
    nextToken: Text | None = None
    filters: list[KeyValuesPair] | None = None


class StopJob(WireModel):
    """CancelJob and TerminateJob."""

    jobId: Text
    reason: Text


class StopJobs(WireModel):
    """CancelJobs and TerminateJobs."""

    jobs: Annotated[list[Text], Field(min_length=1, max_length=50)]
    reason: Text
