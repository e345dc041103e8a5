"""CreateTrainingJob as every dialect means it: each dialect translates its request into a TrainingJobRequest."""

import json
import re
from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.api.training.common.training_jobs import TrainingDialect
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import JobQueue, Tags
from batchq.domain.container import ContainerSpec, Mount, TextFile
from batchq.domain.ids import JobId, QueueName, SubmissionKey
from batchq.domain.job import Job, RetryStrategy
from batchq.domain.job_request import JobRequest
from batchq.domain.task import DefinitionForm, NodeRange, Nodes, Task, TaskContainer, one_container
from batchq.domain.training import MetricRule
from batchq.services.submissions import SubmissionService

DEFAULT_QUEUE = "default"
MAX_REQUEST = 30 * 1024  # bytes: what is stored with a job is limited as in SubmitJob
HYPERPARAMETERS = "/opt/ml/input/config/hyperparameters.json"  # SageMaker's path
MAX_VARIABLE = 4096  # characters of a variable's value
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:./#@-]{0,254}", re.ASCII)

_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9_]")
_NOT_IN_SHARES = re.compile(r"[^A-Za-z0-9]")


class TrainingJobRequest(Struct, frozen=True, kw_only=True):
    """A training job that a client requests."""

    dialect: TrainingDialect
    name: str
    queue: str = DEFAULT_QUEUE
    #: What each node runs.
    container: ContainerSpec
    nodes: int = 1
    #: The beginning of the name of its job definition; empty: the name of the dialect.
    definition: str = ""
    retry: RetryStrategy
    #: The longest that one attempt may run; None: without limit.
    timeout: timedelta | None
    tags: Tags
    metric_rules: tuple[MetricRule, ...] = ()
    #: Required in a queue with a scheduling policy, as is `priority`.
    share: str | None = None
    priority: int | None = None
    #: The time between the stop signal and SIGKILL; None: the server's.
    stop_grace: timedelta | None = None
    #: The members of the request that are only returned.
    returned: Mapping[str, object]
    #: Identifies a request that a client repeats; empty: a repeated request is another one.
    digest: str = ""
    #: The id of the job, which must be new; None: a random one.
    job_id: JobId | None = None
    key: SubmissionKey | None = None

    def in_queue(self, queue: JobQueue, caller: Caller, *, priority: int) -> "TrainingJobRequest":
        """The request with the members that a queue with a policy requires. `priority`: that of a job without one.

        The share is the account of the caller, as far as AWS allows its characters.
        """
        if queue.policy is None:
            return self
        share = _NOT_IN_SHARES.sub("", caller.account)[:255] or self.dialect.name
        return replace(self, share=share, priority=self.priority or priority)

    @property
    def work(self) -> Nodes:
        """What the job runs: one container, or nodes that run the same container, the first one as the main node."""
        if self.nodes == 1:
            return one_container(self.container)
        task = Task(containers=(TaskContainer(spec=self.container),))
        ranges = (NodeRange(last=self.nodes - 1, task=task),)
        return Nodes(count=self.nodes, ranges=ranges, form=DefinitionForm.NODES)

    @property
    def job_request(self) -> JobRequest:
        return JobRequest(
            name=self.name,
            queue=QueueName(self.queue),
            definition_name=self.definition or self.dialect.name,
            inline=self.work,
            retry=self.retry,
            timeout=self.timeout,
            tags=self.tags,
            metric_rules=self.metric_rules,
            share_identifier=self.share,
            scheduling_priority=self.priority,
            stop_grace=self.stop_grace,
            client_document=self.dialect.document(self.returned, request=self.digest),
            job_id=self.job_id,
            key=self.key,
        )

    async def submit(self, submissions: SubmissionService, *, caller: Caller) -> Job:
        """Create the job. Raises the errors of the service."""
        return await submissions.submit(self.job_request, caller=caller)


def input_mount(path: str, folder: str) -> Mount:
    """A folder of this machine at a path of the container. The job fails if the folder does not exist."""
    return Mount(container_path=path, host_path=folder, read_only=True, must_exist=True)


def output_mount(path: str, folder: str) -> Mount:
    """A folder of this machine at a path of the container. The folder is created if it does not exist."""
    return Mount(container_path=path, host_path=folder, create=True)


def json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def hyperparameters_file(hyperparameters: Mapping[str, object]) -> TextFile:
    return TextFile(path=HYPERPARAMETERS, content=json_text(hyperparameters))


def hyperparameter_variables(hyperparameters: Mapping[str, object], prefix: str) -> dict[str, str]:
    """A variable for each hyperparameter: `prefix` and the name in capitals. Values other than texts are JSON."""
    return {
        prefix + _NOT_IN_VARIABLES.sub("_", name.upper()): value if isinstance(value, str) else json_text(value)
        for name, value in hyperparameters.items()
    }


def unique_metric_rules(*rules: tuple[str, str]) -> tuple[MetricRule, ...] | None:
    """The rules of names and regular expressions; None if a name occurs twice."""
    unique = {name: MetricRule(name=name, regex=regex) for name, regex in rules}
    return tuple(unique.values()) if len(unique) == len(rules) else None
