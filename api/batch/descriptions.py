"""Texts of the operations of AWS Batch for /openapi.json, and the members that batchq adds to AWS's answers."""

from collections.abc import Mapping

from msgspec import Struct

from batchq.api.schemas import Additions
from batchq.api.stop_orders import StopOrderAnswer

SUMMARIES: Mapping[str, str] = {
    "SubmitJob": "Submits a job, or an array of jobs, to a queue.",
    "DescribeJobs": "Describes up to 100 jobs by id. Jobs that do not exist are left out.",
    "ListJobs": "Lists jobs of a queue, children of an array, or nodes of a multi-node job, newest first.",
    "CancelJob": "Cancels a job that has not started. A job that has started runs on, and is not retried.",
    "CancelJobs": "Cancels up to 50 jobs, each as CancelJob does.",
    "TerminateJob": "Terminates a job: its containers get SIGTERM, and SIGKILL after the grace period.",
    "TerminateJobs": "Terminates up to 50 jobs, each as TerminateJob does.",
    "RegisterJobDefinition": "Registers a revision of a job definition.",
    "DeregisterJobDefinition": "Makes a revision of a job definition INACTIVE.",
    "DescribeJobDefinitions": "Describes job definitions, by name, by status, or by revision.",
    "CreateComputeEnvironment": "Creates a compute environment: a limit of vCPUs on the machine, with a network.",
    "UpdateComputeEnvironment": "Changes a compute environment.",
    "DeleteComputeEnvironment": "Deletes a DISABLED compute environment that belongs to no queue.",
    "DescribeComputeEnvironments": "Describes compute environments.",
    "CreateJobQueue": "Creates a job queue.",
    "UpdateJobQueue": "Changes a job queue: its state, priority, environments or scheduling policy.",
    "DeleteJobQueue": "Deletes a DISABLED job queue, and terminates its jobs.",
    "DescribeJobQueues": "Describes job queues.",
    "GetJobQueueSnapshot": "Lists the first RUNNABLE jobs of a queue in the order in which they will start.",
    "CreateSchedulingPolicy": "Creates a fair-share scheduling policy.",
    "UpdateSchedulingPolicy": "Changes a scheduling policy.",
    "DeleteSchedulingPolicy": "Deletes a scheduling policy that belongs to no queue.",
    "DescribeSchedulingPolicies": "Describes scheduling policies by ARN.",
    "ListSchedulingPolicies": "Lists the ARNs of the scheduling policies.",
    "CreateConsumableResource": "Creates a consumable resource: a number of units that running jobs hold.",
    "UpdateConsumableResource": "Sets, increases or decreases the total quantity of a consumable resource.",
    "DeleteConsumableResource": "Deletes a consumable resource.",
    "DescribeConsumableResource": "Describes a consumable resource, with the units in use.",
    "ListConsumableResources": "Lists consumable resources, with the units in use.",
    "ListJobsByConsumableResource": "Lists the jobs that require a consumable resource.",
    "TagResource": "Sets tags of a resource.",
    "UntagResource": "Removes tags of a resource.",
    "ListTagsForResource": "Lists the tags of a resource.",
}
"""What each operation does, in one sentence."""


class JobAdditions(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The member `batchq` of a job in the answer to ListJobs, which AWS does not have."""

    #: The user who submitted the job; empty if requests were not authenticated.
    user: str
    #: The account of that user at the time.
    account: str


class JobDetailAdditions(JobAdditions, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The member `batchq` of a job in the answer to DescribeJobs, which AWS does not have."""

    #: The latest order to cancel or stop the job; absent without one.
    stop_order: StopOrderAnswer | None = None
    #: All such orders that had an effect, oldest first; absent without one.
    stop_orders: tuple[StopOrderAnswer, ...] = ()


ADDITIONS: Additions = {("batch", "JobDetail"): JobDetailAdditions, ("batch", "JobSummary"): JobAdditions}
