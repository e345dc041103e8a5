"""What the command line reads of the responses of AWS Batch. Members and types are those of AWS's service model.

The API makes these responses from stored documents, with more members. A command that prints such a response prints it
as it arrives.
"""

from msgspec import Struct, field

from batchq.domain.enums import State, Status


class SubmissionAdditions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The member `batchq` of the answer to SubmitJob, which AWS does not have; absent without a warning."""

    #: Why no compute environment of the queue could hold the job.
    warning: str


class SubmittedJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to SubmitJob."""

    job_id: str
    batchq: SubmissionAdditions | None = None


class RegisteredDefinition(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to RegisterJobDefinition."""

    job_definition_name: str
    revision: int


class AttemptContainerDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """The container of an attempt."""

    exit_code: int | None = None


class AttemptDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """An attempt of a job that has ended."""

    container: AttemptContainerDetail = AttemptContainerDetail()
    status_reason: str | None = None


class ArrayDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """Of an array its size, of a child its index."""

    size: int | None = None
    index: int | None = None
    #: How many children have each status.
    status_summary: dict[Status, int] = {}


class NodesDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """The nodes of a multi-node parallel job."""

    main_node: int


class NodeDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """One node of a multi-node parallel job."""

    is_main_node: bool = False


class JobDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job in the answer to DescribeJobs. Times are in milliseconds since 1970."""

    job_id: str
    job_name: str
    status: Status
    status_reason: str | None = None
    created_at: int
    started_at: int | None = None
    stopped_at: int | None = None
    attempts: tuple[AttemptDetail, ...] = ()
    array_properties: ArrayDetail = ArrayDetail()
    #: Absent for a job of one node.
    node_properties: NodesDetail | None = None
    #: Absent for a job that is not a node.
    node_details: NodeDetail = NodeDetail()
    is_cancelled: bool = False
    is_terminated: bool = False


class DescribeJobsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to DescribeJobs."""

    jobs: tuple[JobDetail, ...]


class EnvironmentOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    """A compute environment of a job queue."""

    #: Its ARN.
    compute_environment: str


class JobQueueDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job queue in the answer to DescribeJobQueues."""

    job_queue_name: str
    state: State
    priority: int
    compute_environment_order: tuple[EnvironmentOrder, ...] = ()


class ComputeEnvironmentDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """A compute environment in the answer to DescribeComputeEnvironments."""

    compute_environment_name: str
    state: State
    status: str = ""
    status_reason: str = ""


class RequirementDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource of a container: VCPU, MEMORY in MiB, or GPU."""

    type: str
    value: str


class ContainerDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """The container of a job definition."""

    image: str = ""
    command: tuple[str, ...] = ()
    resource_requirements: tuple[RequirementDetail, ...] = ()

    def requirement(self, kind: str) -> str | None:
        """The amount of a resource; None: it is not required."""
        return next((amount.value for amount in self.resource_requirements if amount.type == kind), None)


class JobDefinitionDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """A revision in the answer to DescribeJobDefinitions."""

    job_definition_name: str
    revision: int
    status: str = ""
    type: str = ""
    #: Absent for a definition of several containers or nodes.
    container_properties: ContainerDetail = field(default_factory=ContainerDetail)

    @property
    def name(self) -> str:
        """`NAME:REVISION`."""
        return f"{self.job_definition_name}:{self.revision}"


class ConsumableResourceSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource in the answer to ListConsumableResources."""

    consumable_resource_name: str
    resource_type: str
    in_use_quantity: int
    total_quantity: int


class DescribeJobQueuesResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to DescribeJobQueues."""

    job_queues: tuple[JobQueueDetail, ...]


class DescribeComputeEnvironmentsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to DescribeComputeEnvironments."""

    compute_environments: tuple[ComputeEnvironmentDetail, ...]


class DescribeJobDefinitionsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to DescribeJobDefinitions."""

    job_definitions: tuple[JobDefinitionDetail, ...]


class ListConsumableResourcesResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to ListConsumableResources."""

    consumable_resources: tuple[ConsumableResourceSummary, ...]
