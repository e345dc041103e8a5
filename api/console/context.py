"""What the handlers of the web console use."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from batchq.accounts.admin import AccountAdmin
from batchq.api.auth.authentication import HealthReport, KeyAuthentication
from batchq.api.console.forms import Invocations, RecentResults
from batchq.api.console.refresh import Hints, Load, SharedFragments
from batchq.api.console.rendering import Renderer
from batchq.api.http.page_tokens import PageTokens
from batchq.domain.access.accounts import Caller
from batchq.ports.clock import Clock
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.costs import BudgetService, CostService
from batchq.services.explanations import ExplanationService
from batchq.services.job_log import LogFollower
from batchq.services.job_reads import JobSearchService
from batchq.services.job_views import JobViewService
from batchq.services.jobs import JobService
from batchq.services.log_windows import LogPages
from batchq.services.overview import OverviewService
from batchq.services.records import AuditRecordService, EventService
from batchq.services.training import CheckpointService


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


class ConsoleContext(Struct, frozen=True, kw_only=True):
    """The services that the pages read and call."""

    overviews: OverviewService
    explanations: ExplanationService
    jobs: JobService
    views: JobViewService
    search: JobSearchService
    job_log: LogFollower
    log_windows: LogPages
    events: EventService
    catalog: CatalogService
    bulk_stops: BulkStopService
    checkpoints: CheckpointService
    #: `costs.metrics` reads the metrics of jobs.
    costs: CostService
    budgets: BudgetService
    accounts: AccountAdmin
    audit: AuditRecordService
    #: The settings of the server that are no secrets, by flag.
    system_settings: Mapping[str, str]
    health: Callable[[], Awaitable[HealthReport]]
    tokens: PageTokens
    clock: Clock
    batch: BatchCalls
    #: None if no page needs a login.
    keys: KeyAuthentication | None
    #: The time that pages take to render, and the delay of the event loop.
    pressure: Load
    #: For open pages.
    hints: Hints
    live_parts: SharedFragments
    #: The account id of the server.
    account: str
    region: str
    renderer: Renderer = field(default_factory=Renderer)
    invocations: Invocations = field(default_factory=Invocations)
    recent_results: RecentResults = field(default_factory=RecentResults)
