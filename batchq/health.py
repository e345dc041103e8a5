"""The parts of a running server, and its health report, the body of `GET /healthz`."""

from msgspec import Struct

from batchq import __version__
from batchq.api.authentication import HealthReport
from batchq.audit import AuditLog
from batchq.engine.engine import Engine
from batchq.engine.monitors import LoopWatchdog
from batchq.engine.retention import Pruner
from batchq.errors import StoreFailed, StoreLost
from batchq.host import DiskGuard
from batchq.logs.service import LogService
from batchq.ports.clock import Clock
from batchq.services.budgets import BudgetService
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.checkpoints import CheckpointService
from batchq.services.costs import CostService
from batchq.services.explanations import ExplanationService
from batchq.services.job_search import JobSearchService
from batchq.services.jobs import JobService
from batchq.settings import Settings
from batchq.store.sqlite_store import SqliteStore


class Parts(Struct, frozen=True, kw_only=True):
    """The services and background loops of a running server, as `bootstrap` assembles them."""

    store: SqliteStore
    catalog: CatalogService
    engine: Engine
    logs: LogService
    jobs: JobService
    explanations: ExplanationService
    bulk_stops: BulkStopService
    job_search: JobSearchService
    checkpoints: CheckpointService
    #: `costs.metrics` reads the metrics of jobs.
    costs: CostService
    budgets: BudgetService
    loop_watchdog: LoopWatchdog
    pruner: Pruner
    audit: AuditLog
    disk_guard: DiskGuard


async def health(settings: Settings, parts: Parts, clock: Clock) -> HealthReport:
    seen = parts.engine.health()
    store, aside = seen.store, 0
    try:
        await parts.store.check()
        aside = await parts.store.quarantined_values()
    except StoreFailed as failure:
        store = str(failure)
    disk, reserve = parts.disk_guard.problem, parts.store.reserve_trouble
    well = seen.healthy and store is None and disk is None and reserve is None
    return HealthReport(
        status="failing" if seen.failing else "ok" if well else "degraded",
        store=store or "ok",
        engine=seen.engine or "ok",
        data=seen.safe_mode or "ok",
        disk=disk or "ok",
        reserve=reserve or "ok",
        logs=parts.logs.trouble or "ok",
        loops=seen.loops,
        failing_loops=seen.failing,
        event_loop=parts.loop_watchdog.health(),
        put_aside=aside,
        instance=parts.store.instance,
        runtime=settings.runtime.value,
        version=__version__,
        now=clock.now().isoformat(),
    )


async def is_alive(parts: Parts) -> bool:
    """Whether the server can work at all: its data is still its own, and no background loop fails for good."""
    try:
        await parts.store.check()
    except StoreLost:
        return False
    except StoreFailed:  # retried; a restart would not help
        pass
    return not parts.engine.health().failing


async def is_ready(parts: Parts) -> bool:
    """Whether requests should be sent to the server. A degraded server is ready.

    It is not ready before its containers are known, while it fails, and once it is shutting down.
    """
    return parts.engine.recovered and not parts.engine.loop.closing and await is_alive(parts)
