"""What the handlers of all dialects use: one value, which the server makes once."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from aiohttp import web
from msgspec import Struct, field

from batchq.accounts.admin import AccountAdmin
from batchq.api.auth.authentication import KeyAuthentication, parse_credential
from batchq.api.http.page_tokens import PageTokens
from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.container import Resources
from batchq.logs.service import CloudWatchLogs
from batchq.ports.clock import Clock
from batchq.ports.responses.server import HealthReport
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.costs import BudgetService, CostService
from batchq.services.explanations import ExplanationService
from batchq.services.job_log import LogFollower
from batchq.services.job_reads import JobSearchService, NamedJobService, ReservedNames, TrainingLogStreams
from batchq.services.job_views import JobViewService
from batchq.services.jobs import JobService
from batchq.services.log_windows import LogPages
from batchq.services.overview import OverviewService
from batchq.services.records import AuditRecordService, EventService
from batchq.services.submissions import SubmissionService
from batchq.services.training import CheckpointService
from batchq.services.webhooks import WebhookService
from batchq.system.throttling import ConcurrencyLimit

MAX_WAITS = 16  # requests of one user that wait for the end of a job at the same time

State = TypeVar("State")


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Limits on requests that the server's settings define."""

    #: The least time limit of a job, in seconds (AWS: 60).
    min_timeout: int
    #: The vCPUs of an UNMANAGED compute environment without unmanagedvCpus.
    vcpus: int
    #: Whether a job definition may request a privileged container, or devices of the host.
    privileged: bool
    #: The folder of the server with a folder for each bucket; None: S3 URIs are refused.
    s3_root: Path | None
    #: The namespace of the jobs on Kubernetes; None: the server has no cluster.
    kubernetes_namespace: str | None = None


class BatchCalls(Protocol):
    """AWS Batch's operations on jobs and job definitions, by the name of the operation, with JSON."""

    async def call(
        self, operation: str, content: Mapping[str, object], *, caller: Caller, invocation: str = ""
    ) -> Mapping[str, Any]:
        """The answer. A SubmitJob that is repeated with the same `invocation` creates one job. Raises its errors."""

    async def check_submission(
        self, content: Mapping[str, object], *, definition: Mapping[str, object] | None, caller: Caller
    ) -> str | None:
        """Raise the errors of SubmitJob, without a change. Returns its warning; None: there is none.

        `definition`: the RegisterJobDefinition request for a definition that is not registered; None: it is.
        """


class SystemFacts(Struct, frozen=True, kw_only=True):
    """What an operator asks first about a server."""

    started_at: datetime
    #: Names and versions of the container engines, as `docker 27.1.1`; empty while none has answered.
    engines: tuple[str, ...]
    #: The version of the schema of the database.
    schema: int
    #: Bytes of the database and its write-ahead log.
    database_bytes: int
    #: Bytes of all stored logs; None while they are counted for the first time.
    log_bytes: int | None
    #: Free bytes of the disk with the data; None: they could not be read.
    free_bytes: int | None
    #: Whether CPU time and memory of containers can be measured; None: no container has run since the start.
    measures_use: bool | None


class Monitoring(Struct, frozen=True, kw_only=True):
    """The state of the server, for operators and supervisors."""

    health: Callable[[], Awaitable[HealthReport]]
    facts: Callable[[], Awaitable[SystemFacts]]
    #: Whether the process works; if not, a supervisor should restart it.
    is_alive: Callable[[], Awaitable[bool]]
    #: Whether requests should be sent to the server.
    is_ready: Callable[[], Awaitable[bool]]
    #: Returns the metrics of the server, in the text format of Prometheus.
    scrape: Callable[[], Awaitable[bytes]]
    #: Returns the present token of /metrics, or None if there is none; None on a server without keys.
    token: Callable[[], str | None] | None


class Services(Struct, frozen=True, kw_only=True):
    """The services of a server that both its handlers and its own loops and reports use."""

    clock: Clock
    catalog: CatalogService
    jobs: JobService
    submissions: SubmissionService
    search: JobSearchService
    explanations: ExplanationService
    bulk_stops: BulkStopService
    checkpoints: CheckpointService
    #: `costs.metrics` reads the metrics of jobs.
    costs: CostService
    budgets: BudgetService
    webhooks: WebhookService
    logs: CloudWatchLogs


class Parts(Services, frozen=True, kw_only=True):
    """The services and settings of a server that handlers use. All requests of all listeners use the same value."""

    views: JobViewService
    #: The jobs of SageMaker's dialect.
    named: NamedJobService
    #: `overviews.activity` reads the activity over time.
    overviews: OverviewService
    events: EventService
    #: The streams of `/aws/sagemaker/TrainingJobs`.
    training_logs: TrainingLogStreams
    job_log: LogFollower
    log_windows: LogPages
    accounts: AccountAdmin
    audit: AuditRecordService
    tokens: PageTokens
    #: The account id of the server, in ARNs.
    account: str
    #: The region for requests without a credential.
    region: str
    limits: ServerLimits
    #: When the first compute environment was created.
    installed_at: datetime
    #: The settings of the server that are no secrets, by flag.
    system_settings: Mapping[str, str]
    #: The resources of the machine.
    capacity: Callable[[], Resources]
    #: Whether the container runtime answers, so that the state of containers is known.
    runtime_answers: Callable[[], bool]
    monitoring: Monitoring
    #: The authentication of TCP; None if its requests are not authenticated.
    keys: KeyAuthentication | None
    #: Of the listeners, TCP's first. A listener adds its own when it starts.
    urls: list[str] = field(default_factory=list)
    #: Returns the operations of AWS Batch for calls inside the server.
    batch_calls: Callable[["Parts"], BatchCalls]
    #: What single dialects keep between requests, by class.
    states: Mapping[type, object]
    #: The names of jobs that are being created, in dialects with unique names.
    names: ReservedNames = field(default_factory=ReservedNames)
    #: Of the requests of one user that wait for the end of a job.
    waits: ConcurrencyLimit[UserName] = field(default_factory=lambda: ConcurrencyLimit(at_once=MAX_WAITS, waiting=0))

    @property
    def batch(self) -> BatchCalls:
        """The operations of AWS Batch, for calls inside the server."""
        return self.batch_calls(self)

    def region_of(self, request: web.Request) -> str:
        """The region of the credential of a request; the server's if the request is not signed."""
        return parse_credential(request.headers.get("Authorization", "")).region or self.region

    def state(self, kind: type[State]) -> State:
        """The object of this class that a dialect keeps between requests."""
        state = self.states[kind]
        assert isinstance(state, kind)
        return state
